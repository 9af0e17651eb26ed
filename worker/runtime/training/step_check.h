#ifndef MUSTER_WORKER_RUNTIME_TRAINING_STEP_CHECK_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_STEP_CHECK_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/runtime/training/micro_batch_source.h"

namespace muster {

// Decides whether a step that was computed is right, before it changes any parameter. Used by the
// trainer's thread.
class StepCheck {
 public:
  // Computes the gradients of other micro-batches of the step under way, with the same parameters
  // and without sending anything. Returns their fingerprint. Errors are the engine's.
  using Recompute = absl::FunctionRef<absl::StatusOr<uint64_t>(MicroBatchSource&)>;

  virtual ~StepCheck() = default;

  // Takes the fingerprint of the gradients that this rank has computed of the step at `clock`. An
  // error ends the step, which changes nothing.
  virtual absl::Status Check(uint64_t clock, uint64_t gradients, Recompute recompute) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_STEP_CHECK_H_
