#include "server/coordinator/checkpoints/best_checkpoint.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/job_road.h"
#include "common/job/validation/job_validator.h"
#include "server/coordinator/job/evaluation_order.h"
#include "server/coordinator/job/find_checkpoint.h"

namespace muster {
namespace {

std::set<uint64_t> SoundClocks(const v1::JobRecord& record) {
  std::set<uint64_t> clocks;
  for (const v1::CheckpointRecord& checkpoint : record.checkpoints()) {
    if (IsSound(record, checkpoint)) clocks.insert(checkpoint.clock());
  }
  return clocks;
}

// Says why a job with checkpoints has no best one.
std::string WhyThereIsNone(const v1::JobRecord& record) {
  if (RunsProgram(record.spec())) return "runs a program, whose evaluations keep none";
  if (!KeepsBest(record.spec())) return "keeps none (checkpoint.keep_best is false)";
  return "has no checkpoint whose weights were evaluated";
}

}  // namespace

bool KeepsBest(const v1::JobSpec& spec) {
  return !RunsProgram(spec) && !OnlyEvaluates(spec) &&
         (!spec.checkpoint().has_keep_best() || spec.checkpoint().keep_best());
}

const v1::EvaluationResult* BestEvaluation(const v1::JobRecord& record) {
  if (!KeepsBest(record.spec())) return nullptr;
  const std::set<uint64_t> kept = SoundClocks(record);
  const v1::EvaluationResult* best = nullptr;
  for (const v1::EvaluationResult& each : record.evaluations()) {
    if (kept.contains(each.clock()) && IsBetter(each, best)) best = &each;
  }
  return best;
}

bool IsWorthKeeping(const v1::EvaluationResult& result, const v1::JobRecord& record,
                    std::optional<uint64_t> under_way) {
  if (!KeepsBest(record.spec()) || !IsBetter(result, nullptr)) return false;
  // These weights are another job's.
  if (record.initial_resumes() && result.clock() <= record.initial_clock()) return false;
  std::set<uint64_t> kept = SoundClocks(record);
  if (under_way.has_value()) kept.insert(*under_way);
  return std::all_of(record.evaluations().begin(), record.evaluations().end(),
                     [&](const v1::EvaluationResult& each) {
                       const bool counts = each.clock() < result.clock() &&
                                           kept.contains(each.clock()) && IsBetter(each, nullptr);
                       return !counts || IsBetter(result, &each);
                     });
}

absl::StatusOr<const v1::CheckpointRecord*> FindNamedCheckpoint(const v1::JobRecord& record,
                                                                const CheckpointName& name) {
  const v1::EvaluationResult* best = name.best ? BestEvaluation(record) : nullptr;
  if (best != nullptr) return FindCheckpoint(record, best->clock());
  const absl::StatusOr<const v1::CheckpointRecord*> found = FindCheckpoint(record, name.clock);
  if (!name.best || !found.ok()) return found;
  std::string clocks;
  for (const v1::CheckpointRecord& checkpoint : record.checkpoints()) {
    absl::StrAppend(&clocks, clocks.empty() ? "" : ", ", checkpoint.clock());
  }
  return absl::NotFoundError(absl::StrCat("job ", record.job_id(), " has no best checkpoint: it ",
                                          WhyThereIsNone(record), "; name another one, at ",
                                          clocks));
}

}  // namespace muster
