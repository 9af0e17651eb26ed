#ifndef MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_KEPT_COPIES_H_
#define MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_KEPT_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/mesh/recovery_plan.h"
#include "common/tables/row_sum.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/group/recovery/step_outcome.h"
#include "worker/strategy/shard_state.h"

namespace muster {

namespace v1 {
class TablesSchema;
}  // namespace v1

// The copies that a rank keeps of other ranks' shards (ZeroSpec.redundancy): weights, optimizer
// state, steps, rows and clock. In each step the owner sends its complete sums to its keeper, which
// makes the step in the copy, too. So a copy is always at the clock of its keeper's own shard, and
// has the owner's bits. A rank sends one slice of the sums, in f32 (ShardLayout, padding included),
// and receives one for each copy that it keeps; per part that is one all-to-all. Of sparse tables
// it sends the sums of its rows, in three further ones: with T tables 8 · T · (W - 1) bytes of
// numbers, and 8 + 4 · dim for each row.
//
// The memory of copies and their sums is this rank's own, so it outlives groups. Used by one
// thread.
class KeptCopies {
 public:
  // Keeps nothing at first. `schema` is the job's. `own` is what this rank holds. Shards are named
  // by their positions along kStateAxes, which are their owners' ranks.
  KeptCopies(const v1::TablesSchema& schema, const MeshPosition& own);
  ~KeptCopies();

  // Returns what is kept. `has_sums` says whether the last ExchangeSums was for the step at the
  // copies' clock, and succeeded.
  std::vector<RankHolding::Copy> holdings(bool has_sums) const;

  // Returns the copy of a shard; null if there is none.
  ShardState* Find(int shard);

  // Receives a copy of a shard from a rank, in place of a former copy. After an error there is
  // none. Errors are the communicator's.
  absl::Status Receive(Communicator& communicator, int from, int shard, absl::Duration timeout);

  // Drops copies that `keepers` does not ask for, and allocates memory for the sums of the others.
  // `keepers` has by rank who keeps a copy of the rank's shard; -1: nobody. REQUIRES: every copy
  // that rank `rank` is to keep is there.
  void Settle(std::vector<int> keepers, int rank);

  // Drops all copies.
  void Clear() { Settle({}, 0); }
  // Drops all copies, and keeps copies of shards of another division from now on.
  void Divide(const MeshPosition& own);

  // Sends this rank's sums to its keeper, and receives those of the copies; a collective call of
  // all ranks. Makes no calls if nobody keeps anything. Blocks until all calls have ended. `own`
  // has the rank's sums by part. Errors are the communicator's.
  absl::Status ExchangeSums(Communicator& communicator, absl::Span<const absl::Span<float>> own,
                            absl::Duration timeout, const WaitForWork& wait);

  // Sends this rank's sums of rows, by sparse table, to its keeper, and receives those of the
  // copies; a collective call of all ranks. Makes no calls without tables, or if nobody keeps
  // anything. Errors are the communicator's.
  absl::Status ExchangeRows(Communicator& communicator, absl::Span<const RowSum> own,
                            absl::Duration timeout, const WaitForWork& wait);

  // Sends the orthogonalised directions of the rank's parts of matrices to its keeper, and receives
  // those of the copies, in one all-to-all of slices as large as those of the sums; a collective
  // call of all ranks. Makes no call if nobody keeps anything. Errors are the communicator's.
  absl::Status ExchangeDirections(Communicator& communicator, ShardState& own,
                                  absl::Duration timeout, const WaitForWork& wait);

  // Makes the step in every copy. REQUIRES: ExchangeSums and ExchangeRows succeeded in this step,
  // and ExchangeDirections, if ranks divide matrices.
  void MakeStep(const StepOutcome& outcome);

 private:
  struct Copy {
    std::unique_ptr<ShardState> state;
    // Sums by part.
    std::vector<absl::Span<float>> sums;
    // Sums of rows by sparse table.
    std::vector<RowSum> rows;
  };

  bool NobodyKeepsAny() const;

  const std::unique_ptr<const v1::TablesSchema> schema_;
  MeshPosition own_;
  // The most parts that any shard has. Each is a call.
  const size_t parts_;
  std::vector<int> keepers_;
  // Copies by shard, which is their owner's rank.
  std::map<int, Copy> copies_;
  // Sums part after part; within a part, copy after copy.
  std::unique_ptr<Arena> sums_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_KEPT_COPIES_H_
