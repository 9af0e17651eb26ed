#include "server/coordinator/lifecycle/early_stop.h"

#include "absl/strings/str_cat.h"
#include "common/eval/metric.h"
#include "proto/job.pb.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/job/evaluation_order.h"

namespace muster {
namespace {

constexpr double kSecondsPerHour = 3600;

// The best evaluation, and how many evaluations after it in a row did not improve on it.
struct Best {
  const v1::EvaluationResult* result = nullptr;
  uint32_t since = 0;
};

Best BestOf(const v1::JobRecord& record) {
  Best best;
  for (const v1::EvaluationResult& each : record.evaluations()) {
    if (!each.no_value().empty()) continue;
    const bool better = IsBetter(each, best.result);
    if (!better && best.result == nullptr) continue;
    best = better ? Best{.result = &each} : Best{.result = best.result, .since = best.since + 1};
  }
  return best;
}

bool ReachesTarget(const v1::StopSpec& stop, const v1::EvaluationResult& result) {
  if (!stop.has_target() || !result.no_value().empty()) return false;
  return HigherIsBetter(result.metric()) ? result.value() >= stop.target()
                                         : result.value() <= stop.target();
}

}  // namespace

std::string StopsAfter(const v1::JobRecord& record) {
  const v1::StopSpec& stop = record.spec().stop();
  const v1::EvaluationResult& last = *record.evaluations().rbegin();
  if (ReachesTarget(stop, last)) return "the target is reached";
  if (stop.hours() > 0 && last.training_seconds() >= stop.hours() * kSecondsPerHour) {
    return absl::StrCat("stop.hours of training, ", stop.hours(), ", are over");
  }
  if (stop.patience() == 0) return "";
  const Best best = BestOf(record);
  if (best.since < stop.patience()) return "";
  return absl::StrCat("no better than at step ", best.result->clock(), " (", best.result->metric(),
                      " ", best.result->value(),
                      "), for as many evaluations as stop.patience allows, ", stop.patience());
}

}  // namespace muster
