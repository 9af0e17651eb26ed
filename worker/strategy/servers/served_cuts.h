#ifndef MUSTER_WORKER_STRATEGY_SERVERS_SERVED_CUTS_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_SERVED_CUTS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/payload.h"
#include "common/checkpoint/storage.h"
#include "common/partition/cut_order.h"
#include "common/partition/tensor_spec.h"
#include "worker/strategy/background_cuts.h"
#include "worker/strategy/servers/dense_pushes.h"
#include "worker/strategy/servers/served_loss_scale.h"
#include "worker/strategy/servers/shard_router.h"
#include "worker/strategy/training_state.h"

namespace muster {

namespace v1 {
class TaskOrder;
}  // namespace v1

// Cuts of a job whose parameters are on servers, which write the files. With its part of a cut a
// slot sends its own state: what its pushes have rounded away (DenseResidual), by partition, and to
// the first partition its loss scale, unless that is the group's. A task that goes on from the
// checkpoint reads them back. Used by one thread.
class ServedCuts final : public BackgroundCuts {
 public:
  // These are the parts that cuts work with. All outlive this object, except that the router may be
  // made later and end earlier.
  struct Parts {
    ShardRouter& router;
    DensePushes& pushes;
    ServedLossScale& loss_scale;
    absl::Span<const TensorSpec> tensors;
    const v1::TaskOrder& order;
    uint32_t partitions = 0;
    // The storage of checkpoints; null: the slot's state begins anew.
    const CheckpointStorage* checkpoints = nullptr;
    std::function<void(absl::string_view)> log;
  };

  explicit ServedCuts(const Parts& parts) : parts_(parts) {}

  // Reads the slot's state at the checkpoint that the order names. Does nothing if the slot has
  // closed other clocks than that checkpoint, or takes over only the weights. DataLoss: the
  // checkpoint is damaged.
  absl::Status RestoreSlotState(uint64_t closed);

  // Takes the cut and waits for its files (TrainingState::Cut).
  absl::StatusOr<CutFiles> Cut(uint64_t clock);

  absl::Status Take(uint64_t clock) override;
  void Write(uint64_t clock, absl::optional<uint64_t> base) override;
  bool Written() const override;
  absl::StatusOr<CutFiles> AwaitFiles() override;

 private:
  // Sends one order to all partitions. Returns the operations in order of partition.
  std::vector<ShardRouter::Handle> Send(uint64_t clock, const CutOrder& order);
  // Returns what all partitions answered.
  absl::StatusOr<CutFiles> Await(const std::vector<ShardRouter::Handle>& operations);
  // Returns the order with the slot's state for the partition.
  Payload PayloadOf(CutOrder order, uint32_t partition) const;

  const Parts parts_;
  // The cut that is being written.
  std::vector<ShardRouter::Handle> writes_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_SERVED_CUTS_H_
