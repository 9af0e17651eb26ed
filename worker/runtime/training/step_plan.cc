#include "worker/runtime/training/step_plan.h"

namespace muster {
namespace {

using Kind = StepAction::Kind;

void AppendRows(bool has_rows, int micro_batch, std::vector<StepAction>& plan) {
  if (!has_rows) return;
  plan.push_back({Kind::kPrefetchRows, -1, micro_batch});
  plan.push_back({Kind::kLookUpRows, -1, micro_batch});
}

// Appends the run of a unit in one direction.
void AppendUnit(Kind run, int unit, int micro_batch, std::vector<StepAction>& plan) {
  const Direction direction = run == Kind::kForward ? Direction::kForward : Direction::kBackward;
  plan.push_back({Kind::kAcquire, unit, micro_batch, direction});
  plan.push_back({run, unit, micro_batch});
  plan.push_back({Kind::kRelease, unit, micro_batch, direction});
}

}  // namespace

std::vector<StepAction> TrainingStepPlan(const StepShape& shape) {
  std::vector<StepAction> plan = {{Kind::kBeginStep}};
  const int last_unit = shape.units - 1;
  for (int m = 0; m < shape.micro_batches; ++m) {
    const bool leaves = shape.sends_micro_batches || m + 1 == shape.micro_batches;
    const bool checks = leaves && !shape.scaled_loss && !shape.on_device;
    const Kind ready = checks ? Kind::kSendGradients : Kind::kGradientReady;
    plan.push_back({Kind::kLoad, -1, m});
    AppendRows(shape.has_rows, m, plan);
    for (int unit = 0; unit < last_unit; ++unit) AppendUnit(Kind::kForward, unit, m, plan);
    plan.push_back({Kind::kAcquire, last_unit, m, Direction::kBackward});
    plan.push_back({Kind::kBeginBackward, -1, m});
    plan.push_back({Kind::kLastUnit, last_unit, m});
    plan.push_back({Kind::kRelease, last_unit, m, Direction::kBackward});
    if (!shape.on_device) plan.push_back({Kind::kCheckLoss, -1, m});
    plan.push_back({ready, last_unit, m});
    for (int unit = last_unit - 1; unit >= 0; --unit) {
      AppendUnit(shape.split_backward ? Kind::kBackwardInput : Kind::kBackward, unit, m, plan);
      if (!shape.split_backward) plan.push_back({ready, unit, m});
    }
    for (int unit = last_unit - 1; shape.split_backward && unit >= 0; --unit) {
      plan.push_back({Kind::kBackwardWeights, unit, m});
      plan.push_back({ready, unit, m});
    }
    if (shape.has_rows) plan.push_back({Kind::kPushRows, -1, m});
  }
  plan.push_back({Kind::kEndStep});
  if (shape.on_device) plan.push_back({Kind::kCheckLoss, -1, shape.micro_batches - 1});
  return plan;
}

std::vector<StepAction> EvaluationPlan(int units, bool has_rows) {
  std::vector<StepAction> plan;
  AppendRows(has_rows, 0, plan);
  for (int unit = 0; unit < units; ++unit) AppendUnit(Kind::kForward, unit, 0, plan);
  return plan;
}

}  // namespace muster
