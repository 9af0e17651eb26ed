#include "worker/runtime/step_plan.h"

namespace muster {
namespace {

using Kind = StepAction::Kind;

void AppendForwardPass(int units, bool has_rows, std::vector<StepAction>& plan) {
  plan.push_back({Kind::kLoad});
  if (has_rows) {
    plan.push_back({Kind::kPrefetchRows});
    plan.push_back({Kind::kLookUpRows});
  }
  for (int unit = 0; unit < units; ++unit) plan.push_back({Kind::kForward, unit});
}

}  // namespace

std::vector<StepAction> TrainingStepPlan(int units, bool has_rows) {
  std::vector<StepAction> plan = {{Kind::kBeginStep}};
  AppendForwardPass(units, has_rows, plan);
  plan.push_back({Kind::kBeginBackward});
  for (int unit = units - 1; unit >= 0; --unit) {
    plan.push_back({Kind::kBackward, unit});
    plan.push_back({Kind::kSendGradients, unit});
  }
  if (has_rows) plan.push_back({Kind::kPushRows});
  plan.push_back({Kind::kEndStep});
  return plan;
}

std::vector<StepAction> EvaluationPlan(int units, bool has_rows) {
  std::vector<StepAction> plan;
  AppendForwardPass(units, has_rows, plan);
  return plan;
}

}  // namespace muster
