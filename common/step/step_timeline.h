#ifndef MUSTER_COMMON_STEP_STEP_TIMELINE_H_
#define MUSTER_COMMON_STEP_STEP_TIMELINE_H_

#include <vector>

#include "absl/types/span.h"
#include "common/step/action.h"
#include "common/step/stage_shape.h"

namespace muster {

// The times of the passes of a virtual stage over one micro-batch, in any unit.
struct VirtualStageTimes {
  double forward = 1;
  double backward_input = 1;
  double backward_weights = 1;

  double total() const { return forward + backward_input + backward_weights; }
};

struct TimedAction {
  StepAction action;
  double begin = 0;
  double end = 0;
};

// The times at which stages compute in a step that begins at 0.
struct StepTimeline {
  // The passes of each stage, in order.
  std::vector<std::vector<TimedAction>> stages;

  // Returns the time at which the last stage has ended.
  double length() const;
  // Returns for how long the stage computes.
  double busy(int stage) const;
};

// Returns the timeline of a step in which every stage makes each pass as soon as its order
// (compute_order.h) and its inputs let it, and an input takes `transfer` from one stage to another.
// REQUIRES: as ComputeOrder; one entry in `virtual_stages` per virtual stage.
StepTimeline TimelineOf(const StageShape& shape, absl::Span<const VirtualStageTimes> virtual_stages,
                        double transfer);

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_STEP_TIMELINE_H_
