#ifndef MUSTER_WORKER_DEVICE_DEVICE_REPLICA_H_
#define MUSTER_WORKER_DEVICE_DEVICE_REPLICA_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/checkpoint/storage.h"
#include "worker/device/device_trainer.h"
#include "worker/device/replica_copy.h"
#include "worker/strategy/kept_replica.h"
#include "worker/strategy/replica_group.h"
#include "worker/strategy/training_state.h"

namespace muster {

namespace v1 {
class TablesSchema;
class TaskOrder;
}  // namespace v1

// The communicator of device memory that goes with one of host memory, of the same ranks; called by
// all of them. `host` may be used for other things before and after. Errors: the backend's.
using MakeDeviceCommunicator =
    std::function<absl::StatusOr<std::unique_ptr<Communicator>>(Communicator& host)>;

struct DeviceReplicaDependencies {
  // Outlives the replica.
  CheckpointStorage* storage = nullptr;
  // Writes one line to the job's log.
  std::function<void(absl::string_view)> log = [](absl::string_view) {};
  MakeDeviceCommunicator make_communicator;
};

// data_parallel_strategy.h for replicas that live on devices: weights, gradients and Adam's moments
// never leave them while a group trains; a communicator of device memory sums gradients. Beside it
// the host keeps one copy (12 bytes a parameter), through which all goes that is not a step:
// restoring, taking another rank's replica over, checkpoints. The copy is brought up to date when
// it is needed, so a step costs the host nothing. Checkpoints have the common form, so that a job
// goes on from them on processors too, and the reverse.
//
//   Join; then per step: trainer()->BeginStep(clock()), AddMicroBatch …, EndStep
//
// A failed step leaves weights and moments as they were (DeviceTrainer::EndStep), whence the next
// group goes on.
class DeviceReplica final : public TrainingState, public ReplicaGroup {
 public:
  // `options` are for the job's model; `schema` is the job's. InvalidArgument: the schema is not
  // valid, or its optimizer is not adam or adamw.
  static absl::StatusOr<std::unique_ptr<DeviceReplica>> Create(
      const v1::TaskOrder& order, const v1::TablesSchema& schema,
      const DeviceTrainerOptions& options, DeviceReplicaDependencies dependencies);
  ~DeviceReplica() override;

  // Also errors of DeviceTrainer::Create.
  absl::Status Join(std::unique_ptr<Communicator> communicator,
                    absl::optional<int> source) override;
  void Leave() override;
  uint64_t bucket_plan_fingerprint() const override { return fingerprint_; }
  absl::optional<uint64_t> replica_clock() const override;
  const Communicator* communicator() const override;
  TrainingState& state() override { return *this; }

  // FailedPrecondition: no group was joined.
  absl::StatusOr<uint64_t> Start() override;
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override;
  absl::StatusOr<CutEnd> EndCut(CutEnd mine) override;
  const LossScaler* loss_scaler() const override { return kept_->loss_scaling().scaler(); }
  StrategyCounters counters() const override;

  // Of one batch.
  int64_t most_examples() const { return options_.compute.sequences; }
  // Null when there is no group.
  DeviceTrainer* trainer() { return trainer_.get(); }
  uint64_t clock() const { return clock_; }

  // Ends the step at clock() by the schedule's rate: with every rank's gradients, or not at all.
  // Scaled gradients that overflow leave it out. Errors as DeviceTrainer::EndStep's; also
  // OutOfRange where there is no smaller loss scale.
  absl::StatusOr<DeviceStepResult> EndStep();

 private:
  DeviceReplica(const v1::TablesSchema& schema, const DeviceTrainerOptions& options,
                DeviceReplicaDependencies dependencies, std::unique_ptr<KeptReplica> kept,
                uint64_t fingerprint);

  // Makes the host's copy that of the device.
  absl::Status Download();

  const std::unique_ptr<const v1::TablesSchema> schema_;
  const DeviceTrainerOptions options_;
  const DeviceReplicaDependencies dependencies_;
  const std::unique_ptr<KeptReplica> kept_;
  const uint64_t fingerprint_;
  // Of the replica on the device, while there is a group.
  uint64_t clock_ = 0;
  // Steps since the host's copy that moved weights.
  uint64_t moved_ = 0;
  // Of groups before.
  StrategyCounters counters_;

  std::unique_ptr<Communicator> host_;
  // Null in a group of one.
  std::unique_ptr<Communicator> device_;
  std::unique_ptr<DeviceTrainer> trainer_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_REPLICA_H_
