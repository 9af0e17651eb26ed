#ifndef MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_KEPT_SHARD_H_
#define MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_KEPT_SHARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/loss_scale.h"
#include "common/checkpoint/storage.h"
#include "common/partition/dense_layout.h"
#include "common/partition/shard_layout.h"
#include "common/tables/table_checkpoint.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/loss_scaling.h"
#include "worker/strategy/group/recovery/state_broadcast.h"
#include "worker/strategy/shard_state.h"
#include "worker/strategy/training_state.h"

namespace muster {

namespace v1 {
class TablesSchema;
class TaskOrder;
}  // namespace v1

// Returns what a task's rank holds, by its slot.
MeshPosition ShardOf(const v1::TaskOrder& order);

// Returns a fingerprint of how a stage's calls divide what they gather and scatter, and of which
// units stay gathered (KeptGatheredBytes).
uint64_t ShardFingerprint(uint32_t stage, uint64_t kept_bytes, const ShardLayout& layout);

// The timeout of collective calls in which ranks may wait for another rank's storage.
inline constexpr absl::Duration kStorageTimeout = absl::Minutes(10);

// A rank's shard, where it comes from (another rank, the order's checkpoint or initial values) and
// where it goes (the files of a checkpoint, which the ranks share out). With one shard, every rank
// has a replica of it. Not thread-safe.
class KeptShard {
 public:
  struct Options {
    // The storage of checkpoints. Outlives this object.
    CheckpointStorage* storage = nullptr;
    MeshPosition shard = {};
    // The folder for optimizer state, if the job offloads it.
    std::string offload_folder;
    // Writes one line to the job's log.
    std::function<void(absl::string_view)> log = [](absl::string_view) {};
  };

  // Creates an unfilled shard. InvalidArgument: the schema is not valid. Otherwise errors are
  // OffloadedFloats' and CheckRoomForNewFiles'.
  static absl::StatusOr<std::unique_ptr<KeptShard>> Create(const v1::TaskOrder& order,
                                                           const v1::TablesSchema& schema,
                                                           const Options& options);
  ~KeptShard();

  // Returns the shard's state, which Take and Divide replace by another object.
  ShardState& state() { return *state_; }
  const ShardState& state() const { return *state_; }

  // Returns the number of steps that the shard has seen; absent: there is no usable shard yet.
  absl::optional<uint64_t> clock() const;

  // Gives up the state and its memory. There is no usable one until it is filled again.
  void Forget();
  // Gives up weights and optimizer state, which the caller has elsewhere, and their memory. Clock,
  // steps, rows and the loss scale stay, and are to be kept up to date.
  void HandOver();
  bool handed_over() const { return content_ == StateContent::kHandedOver; }
  // Takes back a state that was handed over: `copy` writes all weights and optimizer state. Errors
  // are those of `copy`; after one there is no state.
  absl::Status TakeBack(absl::FunctionRef<absl::Status(ShardState& state)> copy);

  // Returns the group's loss scale, which is part of the state. It is the same on all ranks as long
  // as their steps end alike. Cuts hold it once for every slot; a checkpoint's scale is that of
  // slot 0.
  LossScaling& loss_scaling() { return loss_scaling_; }
  const LossScaling& loss_scaling() const { return loss_scaling_; }

  // Fills the shards of all ranks; a collective call of all of them. Without a source, every rank
  // starts from the order's checkpoint or from the initial values of one of its replicas. Where all
  // ranks hold the same, that of rank `source` may become all ranks' instead. `replicas` are the
  // ranks that hold the same of all but experts, and `expert_replicas` those that hold the same of
  // experts that ranks divide; null if there is no other. Errors are the communicators' or the
  // storage's. REQUIRES: with several shards there is no source.
  absl::Status Fill(Communicator& communicator, absl::optional<int> source, Communicator* replicas,
                    Communicator* expert_replicas = nullptr);

  // Makes this rank's shard another one, which is not filled. Errors are OffloadedFloats'.
  absl::Status Divide(const MeshPosition& shard);
  // Returns how many neighbouring context ranks have the same shard.
  int context_copies() const;
  // Returns the shard that one of `ranks` ranks of a round has.
  MeshPosition ShardOfRank(int rank, int ranks) const;
  // Returns how the shares of a shard's tensor rank are laid out. InvalidArgument: the schema is
  // not valid.
  absl::StatusOr<DenseLayout> LayoutOf(const MeshPosition& shard) const;
  // Returns an unfilled state of another shard, for Take. Errors are OffloadedFloats'.
  absl::StatusOr<std::unique_ptr<ShardState>> MakeState(const MeshPosition& shard) const;
  // Makes this rank's shard the one of `state`, which the caller has filled.
  void Take(std::unique_ptr<ShardState> state);

  // Fills the shard from rank `from`, which sends it (SendState). After an error there is no usable
  // shard. Errors are the communicator's.
  absl::Status Receive(Communicator& communicator, int from);
  // Makes rank `source`'s loss scale that of all ranks; a collective call.
  absl::Status BroadcastLossScale(Communicator& communicator, int source);

  // The folder of checkpoints, and that of optimizer state; empty: it is in memory.
  CheckpointStorage& storage() const { return *options_.storage; }
  const std::string& checkpoint_root() const;
  std::string offload_folder() const;

  // Returns what the files hold that this rank writes in a cut of all W ranks. Valid until the
  // state changes. Files are numbered from `first_number`.
  //
  // Where all ranks hold the same, there is one file for each partition: rank r writes those of
  // partitions p with p mod W = r. Otherwise there is one file for each rank, in order of rank. It
  // has the rank's share of its shard's blocks, which replicas divide among them, except for blocks
  // that lower tensor ranks or another stage have, too; and the rows of partitions p with p mod W =
  // r.
  std::vector<PartitionContent> ContentsOfCut(const Communicator& communicator,
                                              uint32_t first_number) const;

  // Writes a checkpoint's files. A collective call of all ranks, all of which return all files.
  // The cut fails on all ranks if one cannot write, or if `failure` says that it failed elsewhere.
  absl::StatusOr<CutFiles> Cut(Communicator& communicator, uint32_t first_number,
                               absl::string_view failure);

  // Returns rank 0's end of the cut on all ranks. A collective call after each Cut, and a barrier.
  // Each rank deletes its files of a cut that is given up.
  absl::StatusOr<CutEnd> EndCut(Communicator& communicator, CutEnd mine);

 private:
  KeptShard(const v1::TaskOrder& order, const v1::TablesSchema& schema, const Options& options);

  // Checks that the disk has room for the files of optimizer state that are there at once while
  // ranks divide the parameters anew.
  absl::Status CheckRoom() const;
  absl::Status Restore();
  std::vector<SlotLossScale> LossScalesOfSlots() const;
  // Returns the files that this rank writes in a cut.
  std::vector<ShardFile> OwnFiles(const Communicator& communicator, uint32_t first_number) const;
  // Writes this rank's files, and adds them to written_.
  absl::Status WriteOwnFiles(const Communicator& communicator, uint32_t first_number);
  void DeleteWritten();

  const std::unique_ptr<const v1::TaskOrder> order_;
  const std::unique_ptr<const v1::TablesSchema> schema_;
  const Options options_;
  // Set after Create.
  std::unique_ptr<ShardState> state_;
  StateContent content_ = StateContent::kNothing;
  LossScaling loss_scaling_;
  // This rank's files of the last cut, whose clock is the state's.
  std::vector<PartitionFile> written_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_KEPT_SHARD_H_
