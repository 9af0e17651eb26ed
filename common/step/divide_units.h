#ifndef MUSTER_COMMON_STEP_DIVIDE_UNITS_H_
#define MUSTER_COMMON_STEP_DIVIDE_UNITS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/step/stage_shape.h"
#include "common/step/step_timeline.h"

namespace muster {

// The cost of a unit of a model for the stage that has it.
struct UnitCost {
  // Operations of its passes over one micro-batch.
  VirtualStageTimes operations = {0, 0, 0};
  // Parameters, gradients and optimizer state.
  double state_bytes = 0;
  // Bytes that its forward leaves for its backward, of one micro-batch.
  double activation_bytes = 0;
};

struct StageCost {
  // Operations of all passes over one micro-batch.
  double operations = 0;
  // State, and the activations of as many micro-batches as the stage holds at a time.
  double bytes = 0;
};

// Returns how many units each virtual stage has, in order, at least one: so that the stage with
// the most operations has as few as possible, since all others wait for it; among equals, so that
// the stage with the most bytes has as few as possible. With several chunks a stage this is found
// by moving units between neighbouring virtual stages while it helps, which may miss the best.
// InvalidArgument: fewer units than virtual stages. REQUIRES: as ComputeOrder.
absl::StatusOr<std::vector<int>> DivideUnits(const StageShape& shape,
                                             absl::Span<const UnitCost> units);

// Returns, by virtual stage, the sum of its units' operations; `sizes` is the number of units by
// virtual stage.
std::vector<VirtualStageTimes> OperationsOfVirtualStages(absl::Span<const UnitCost> units,
                                                         absl::Span<const int> sizes);

// Returns what the stages cost. REQUIRES: as above.
std::vector<StageCost> CostsOfStages(const StageShape& shape, absl::Span<const UnitCost> units,
                                     absl::Span<const int> sizes);

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_DIVIDE_UNITS_H_
