#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_REPLICA_ENGINE_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_REPLICA_ENGINE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/device/device_replica.h"
#include "worker/runtime/training/step_engine.h"

namespace muster {

// A step engine that computes a transformer on the device that holds its parameters, and steps them
// there together with the other ranks. Lives as long as one group of the replica.
class DeviceReplicaEngine final : public StepEngine {
 public:
  // REQUIRES: the replica has joined a group; both outlive the engine.
  explicit DeviceReplicaEngine(DeviceReplica& replica) : replica_(replica) {}

  int64_t most_examples() const override { return replica_.most_examples(); }
  // Reports the mean loss of all ranks, the only loss that the device computes.
  absl::Status Train(uint64_t clock, MicroBatchSource& micro_batches, StepSums& sums) override;
  absl::Status BeginEvaluation(uint64_t clock) override;
  absl::Status Evaluate(const Batch& batch, PassResult& result) override;

 private:
  DeviceReplica& replica_;
  Batch batch_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_REPLICA_ENGINE_H_
