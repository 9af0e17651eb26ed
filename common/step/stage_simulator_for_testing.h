#ifndef MUSTER_COMMON_STEP_STAGE_SIMULATOR_FOR_TESTING_H_
#define MUSTER_COMMON_STEP_STAGE_SIMULATOR_FOR_TESTING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/step/action.h"
#include "common/step/stage_shape.h"

namespace muster {

// The memory of a stage, and the time that things take.
struct SimulatedStages {
  // Number of inputs, and of gradients, that a stage can hold from the start of their receives to
  // the end of the passes that read them.
  int activation_buffers = 1;
  int gradient_buffers = 1;
  // Number of outputs, and of gradients of inputs, that a stage can hold from the beginning of the
  // pass that makes them to the end of their sends.
  int output_buffers = 1;
  // A pass takes 1 to `longest_pass`, a transfer 0 to `longest_transfer`, by chance.
  uint64_t seed = 0;
  int longest_pass = 1;
  int longest_transfer = 0;
};

// Executes the lists of all stages as stage_schedule.h says, with the least that a transport may
// do: nothing is stored on the way, so a transfer begins when both stages have got to its batch; a
// batch ends when all its transfers have; a stage has one batch under way at a time. Every value is
// followed, so a pass whose input was not made is found out. FailedPrecondition: the lists do not
// belong together, or need more buffers, or deadlock; says where.
absl::Status SimulateStages(const StageShape& shape,
                            absl::Span<const std::vector<StepAction>> stages,
                            const SimulatedStages& options);

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_STAGE_SIMULATOR_FOR_TESTING_H_
