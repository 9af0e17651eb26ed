#include "common/plan/memory/score_memory.h"

#include <algorithm>
#include <string>

#include "common/base/round_up.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/ranks/planned_stages.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// An f32 score and a label.
constexpr uint64_t kScoreBytes = 5;

bool PredictsTwoClasses(const v1::ModelSpec& model) {
  if (model.has_logistic_regression()) return model.logistic_regression().classes() <= 2;
  if (model.has_mlp()) return model.mlp().classes() == 2;
  return model.has_deep_fm() && !model.deep_fm().has_regression();
}

}  // namespace

uint64_t PlanScores(const v1::JobSpec& spec, const DataSize& data) {
  const std::string& metric = spec.evaluation().metric();
  const bool usual = metric.empty() && spec.model().has_deep_fm();
  if (metric == "binned_auc" || !PredictsTwoClasses(spec.model()) ||
      !(spec.stop().evaluate_only() || metric == "auc" || usual)) {
    return 0;
  }
  uint64_t examples = HeldOutExamples(spec, data).value_or(0);
  const uint64_t most = spec.evaluation().max_examples();
  if (most > 0) examples = std::min(examples, most);
  const uint64_t share = CeilDivide<uint64_t>(examples, SizeAlong(kDataAxes, spec));
  return 2 * std::min(kScoreBytes * share, kMaxScoreBytes);
}

}  // namespace muster
