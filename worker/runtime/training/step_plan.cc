#include "worker/runtime/training/step_plan.h"

namespace muster {
namespace {

using Kind = StepAction::Kind;

// Appends what comes before the last unit runs.
void AppendFirstUnits(int units, bool has_rows, int micro_batch, std::vector<StepAction>& plan) {
  plan.push_back({Kind::kLoad, -1, micro_batch});
  if (has_rows) {
    plan.push_back({Kind::kPrefetchRows, -1, micro_batch});
    plan.push_back({Kind::kLookUpRows, -1, micro_batch});
  }
  for (int unit = 0; unit < units; ++unit) {
    plan.push_back({Kind::kAcquire, unit, micro_batch});
    if (unit + 1 < units) plan.push_back({Kind::kForward, unit, micro_batch});
  }
}

}  // namespace

std::vector<StepAction> TrainingStepPlan(const StepShape& shape) {
  std::vector<StepAction> plan = {{Kind::kBeginStep}};
  for (int m = 0; m < shape.micro_batches; ++m) {
    const bool last = m + 1 == shape.micro_batches;
    const Kind ready = last ? Kind::kSendGradients : Kind::kGradientReady;
    const int last_unit = shape.units - 1;
    AppendFirstUnits(shape.units, shape.has_rows, m, plan);
    plan.push_back({Kind::kBeginBackward, -1, m});
    plan.push_back({Kind::kLastUnit, last_unit, m});
    plan.push_back({Kind::kCheckLoss, -1, m});
    for (int unit = last_unit; unit >= 0; --unit) {
      if (unit < last_unit) plan.push_back({Kind::kBackward, unit, m});
      if (!shape.scaled_loss) plan.push_back({ready, unit, m});
    }
    if (shape.scaled_loss) {
      if (last) plan.push_back({Kind::kUnscale, -1, m});
      // These gradients have been checked.
      for (int unit = last_unit; unit >= 0; --unit) {
        plan.push_back({Kind::kGradientReady, unit, m});
      }
    }
    if (shape.has_rows) plan.push_back({Kind::kPushRows, -1, m});
  }
  plan.push_back({Kind::kEndStep});
  return plan;
}

std::vector<StepAction> EvaluationPlan(int units, bool has_rows) {
  std::vector<StepAction> plan;
  AppendFirstUnits(units, has_rows, 0, plan);
  plan.push_back({Kind::kForward, units - 1});
  return plan;
}

}  // namespace muster
