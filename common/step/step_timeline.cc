#include "common/step/step_timeline.h"

#include <algorithm>
#include <limits>

#include "common/step/compute_order.h"

namespace muster {
namespace {

using Kind = ActionKind;

constexpr double kNotYet = std::numeric_limits<double>::infinity();

// The progress of all stages.
class Run {
 public:
  Run(const StageShape& shape, absl::Span<const VirtualStageTimes> virtual_stages, double transfer)
      : shape_(shape),
        virtual_stages_(virtual_stages),
        transfer_(shape.stages > 1 ? transfer : 0),
        outputs_(shape.virtual_stages() * shape.micro_batches, kNotYet),
        gradients_(outputs_) {}

  // Makes the pass, if its inputs are there. Returns false if they are not.
  bool Make(int stage, const StepAction& action, std::vector<TimedAction>& timeline) {
    const int virtual_stage = shape_.VirtualStage(stage, action.chunk);
    const double inputs = InputsAt(virtual_stage, action);
    if (inputs == kNotYet) return false;
    const double begin = std::max(inputs, timeline.empty() ? 0 : timeline.back().end);
    const double end = begin + Duration(virtual_stages_[virtual_stage], action.kind);
    timeline.push_back({action, begin, end});
    if (action.kind == Kind::kForward) At(outputs_, virtual_stage, action) = end;
    if (action.kind == Kind::kBackward || action.kind == Kind::kBackwardInput) {
      At(gradients_, virtual_stage, action) = end;
    }
    return true;
  }

 private:
  static double Duration(const VirtualStageTimes& times, Kind kind) {
    switch (kind) {
      case Kind::kForward:
        return times.forward;
      case Kind::kBackwardInput:
        return times.backward_input;
      case Kind::kBackwardWeights:
        return times.backward_weights;
      default:
        return times.backward_input + times.backward_weights;
    }
  }

  double& At(std::vector<double>& ends, int virtual_stage, const StepAction& action) {
    return ends[virtual_stage * shape_.micro_batches + action.micro_batch];
  }

  double InputsAt(int virtual_stage, const StepAction& action) {
    switch (action.kind) {
      case Kind::kForward:
        return virtual_stage == 0 ? 0 : At(outputs_, virtual_stage - 1, action) + transfer_;
      case Kind::kBackwardWeights:
        return At(gradients_, virtual_stage, action);
      default:
        return virtual_stage + 1 == shape_.virtual_stages()
                   ? At(outputs_, virtual_stage, action)
                   : At(gradients_, virtual_stage + 1, action) + transfer_;
    }
  }

  const StageShape shape_;
  const absl::Span<const VirtualStageTimes> virtual_stages_;
  const double transfer_;
  // The times, by virtual stage and micro-batch, at which the virtual stage's forward, and the
  // gradient of its input, ended.
  std::vector<double> outputs_;
  std::vector<double> gradients_;
};

}  // namespace

double StepTimeline::length() const {
  double length = 0;
  for (const std::vector<TimedAction>& stage : stages) {
    length = std::max(length, stage.back().end);
  }
  return length;
}

double StepTimeline::busy(int stage) const {
  double busy = 0;
  for (const TimedAction& timed : stages[stage]) busy += timed.end - timed.begin;
  return busy;
}

StepTimeline TimelineOf(const StageShape& shape, absl::Span<const VirtualStageTimes> virtual_stages,
                        double transfer) {
  std::vector<std::vector<StepAction>> orders;
  for (int stage = 0; stage < shape.stages; ++stage) orders.push_back(ComputeOrder(shape, stage));
  StepTimeline timeline;
  timeline.stages.resize(shape.stages);
  Run run(shape, virtual_stages, transfer);
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::vector<TimedAction>& made = timeline.stages[stage];
      while (made.size() < orders[stage].size() &&
             run.Make(stage, orders[stage][made.size()], made)) {
        moved = true;
      }
    }
  }
  return timeline;
}

}  // namespace muster
