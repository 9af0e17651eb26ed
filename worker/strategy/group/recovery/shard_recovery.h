#ifndef MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_SHARD_RECOVERY_H_
#define MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_SHARD_RECOVERY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/mesh/recovery_plan.h"
#include "common/tables/row_sum.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/group/recovery/kept_copies.h"
#include "worker/strategy/group/recovery/kept_shard.h"
#include "worker/strategy/group/recovery/step_outcome.h"

namespace muster {

namespace v1 {
class TablesSchema;
class TaskOrder;
}  // namespace v1

// One rank's part in going on in place after a loss, in a job whose ranks hold different shards
// (common/mesh/recovery_plan.h): what it keeps from step to step for that, and how all ranks become
// whole again. Shards are named by their positions along kStateAxes.
//
//   in each step   SendRows and SumsComplete, before the exchange after which ranks make the step;
//                  where that orthogonalises divided matrices, SendDirections; then StepMade
//   after a loss   KeepSums, before the memory of sums goes; then, in the next group, Recover; or
//                  Forget and, once all shards are filled anew, MakeCopies
//   before ranks   HandOver, in a group of its own that makes no step
//   leave
//
// A rank that comes back with complete sums of a step that others have made takes the step's
// outcome from them and makes the step with its own sums, and so do its copies. A rank that has
// nothing takes its shard from a replica, or from the keeper of a copy. With redundancy, the new
// keepers then get the copies that they lack.
//
// Where the next group has other ranks than the last (JobSpec.min_workers), every former shard is
// sent to all ranks, which make new shards of them (resharding.h). The former ones go once all have
// their new ones. A loss right then, before there are copies, takes the job back. Used by one
// thread.
class ShardRecovery {
 public:
  struct Options {
    // Keeps copies of shards on other worker daemons.
    bool redundant = false;
    // Groups may have other numbers of ranks, which divide the parameters anew (DividesAnew).
    bool divides_anew = false;
    // Identity of this rank's worker daemon.
    uint64_t daemon = 0;
    // Writes one line to the job's log.
    std::function<void(absl::string_view)> log = [](absl::string_view) {};
  };

  // `schema` is the job's. `shard` is the rank's own, and outlives this object.
  ShardRecovery(const v1::TablesSchema& schema, KeptShard& shard, const Options& options);

  // Returns what this rank brings to the next group.
  RankHolding holding() const;

  // Sends this rank's sums of rows of the step at the shard's clock, by sparse table, to the rank
  // that keeps a copy, if any does; a collective call of all ranks. Errors are the communicator's.
  absl::Status SendRows(Communicator& world, absl::Span<const RowSum> rows, absl::Duration timeout,
                        const WaitForWork& wait);

  // Notes that this rank's sums of the step at the shard's clock are complete and, with copies,
  // sends the dense ones to the rank that keeps one; a collective call of all ranks. Errors are the
  // communicator's; after one the sums count as incomplete. REQUIRES: SendRows succeeded in this
  // step.
  absl::Status SumsComplete(Communicator& world, absl::Span<const absl::Span<float>> sums,
                            absl::Duration timeout, const WaitForWork& wait);

  // Sends the orthogonalised directions of this rank's parts of matrices to the rank that keeps its
  // copy, where ranks keep some; a collective call of all ranks. Errors are the communicator's.
  // REQUIRES: the sums of the step are complete.
  absl::Status SendDirections(Communicator& world, absl::Duration timeout, const WaitForWork& wait);

  // Makes the step in all copies, and remembers how it ended for ranks that may be behind. To be
  // called once the shard has made the step, and nothing can fail any more.
  void StepMade(const StepOutcome& outcome);

  // Moves complete sums of a step that was not made to memory of their own, to which `sums` then
  // points. Without such sums, `sums` becomes empty.
  void KeepSums(std::vector<absl::Span<float>>& sums);
  // Forgets sums, copies and how the last step ended, which may differ from what others have by
  // now.
  void ForgetKept();

  // Brings the shards and copies of all ranks to one clock; a collective call. This rank is to have
  // `shard`, which only with `divides_anew` may be another than before. `make_step` makes a
  // step of which this rank has kept the sums: it steps the shard, then calls StepMade. After an
  // error the shard is usable or absent (KeptShard::clock), and what was kept is kept for the next
  // group. Internal: the coordinator opened the round, though ranks lack a shard. Otherwise errors
  // are those of `make_step` and of the communicator.
  absl::Status Recover(Communicator& world, const MeshPosition& shard,
                       absl::FunctionRef<absl::Status(const StepOutcome&)> make_step);

  // Has the other ranks keep copies of the shards that `leaving` ranks alone have, until the next
  // group; a collective call, after Recover at the same clock. Errors are the communicator's.
  // REQUIRES: some rank does not leave.
  absl::Status HandOver(Communicator& world, absl::Span<const int> leaving);

  // Forgets sums and copies, because all shards are about to be filled from the job's beginning or
  // a checkpoint, and this rank's with `shard`. Errors are KeptShard::Divide's.
  absl::Status Forget(const MeshPosition& shard);
  // Sends the copies to those who are to keep them; a collective call. Errors are the
  // communicator's.
  absl::Status MakeCopies(Communicator& world);

 private:
  // The holdings of all ranks.
  struct Meeting {
    std::vector<RankHolding> holdings;
    // Identities of daemons, by rank.
    std::vector<uint64_t> daemons;
  };

  // Returns the state of a shard here, this rank's own or a copy; null if there is none.
  ShardState* Find(int shard);
  void ForgetSums();
  absl::Status Exchange(Communicator& world, Meeting& meeting) const;
  absl::Status RollForward(Communicator& world, const RecoveryPlan& plan,
                           absl::FunctionRef<absl::Status(const StepOutcome&)> make_step);
  absl::Status Move(Communicator& world, const ShardTransfer& transfer);
  // Makes new shards of all former ones, and then forgets these with their copies.
  absl::Status MakeNewShards(Communicator& world, const RecoveryPlan& plan,
                             const MeshPosition& shard);
  // Makes this rank's shard the given one, which is then not filled, unless it is that already.
  absl::Status Become(const MeshPosition& shard);
  // Brings the copies to the ranks that are to keep them at `clock`.
  absl::Status RenewCopies(Communicator& world, const Meeting& meeting, uint64_t clock);

  const Options options_;
  KeptShard& shard_;
  KeptCopies copies_;
  // True while the sums of the step at the shard's clock are complete, here and in the copies.
  bool has_sums_ = false;
  // The sums that outlive the group's memory, in the slice space.
  std::unique_ptr<Arena> kept_sums_;
  // The end of the last step that this rank made or was told of; absent: it knows of none.
  absl::optional<StepOutcome> outcome_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_SHARD_RECOVERY_H_
