#include "worker/runtime/device/device_replica_engine.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/nn/diverged_error.h"
#include "worker/runtime/device/device_passes.h"

namespace muster {
namespace {

absl::Status CheckClock(uint64_t clock, const DeviceReplica& replica) {
  if (clock == replica.clock()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("a step begins at clock ", clock, ", but the replica is at ", replica.clock()));
}

}  // namespace

absl::Status DeviceReplicaEngine::Train(uint64_t clock, MicroBatchSource& micro_batches,
                                        StepSums& sums) {
  MUSTER_RETURN_IF_ERROR(CheckClock(clock, replica_));
  MUSTER_RETURN_IF_ERROR(QueueStep(*replica_.trainer(), clock, micro_batches, batch_, sums));
  MUSTER_ASSIGN_OR_RETURN(const DeviceStepResult result, replica_.EndStep());
  if (!std::isfinite(result.loss_sum)) {
    return DivergedError(clock, absl::StrCat("loss is ", result.loss_sum));
  }
  // As on processors, a step without labels changes nothing, and the next step follows.
  if (result.tokens == 0) return absl::OkStatus();
  sums.loss_sum +=
      result.loss_sum * static_cast<double>(sums.loss_weight) / static_cast<double>(result.tokens);
  return absl::OkStatus();
}

absl::Status DeviceReplicaEngine::BeginEvaluation(uint64_t clock) {
  return CheckClock(clock, replica_);
}

absl::Status DeviceReplicaEngine::Evaluate(const Batch& batch, PassResult& result) {
  return EvaluateOnDevice(*replica_.trainer(), batch, result);
}

}  // namespace muster
