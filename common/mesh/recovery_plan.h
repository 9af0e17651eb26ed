#ifndef MUSTER_COMMON_MESH_RECOVERY_PLAN_H_
#define MUSTER_COMMON_MESH_RECOVERY_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/mesh/mesh.h"

namespace muster {

// How the ranks of a job with several shards go on after some of them were lost and replaced. Pure
// functions, with which the coordinator decides whether the job goes on in place, and the ranks
// decide who sends what to whom.
//
// No rank makes a step before all ranks have told one another that their sums are complete. So
// clocks differ by at most one, and if one rank is a step ahead, all others have their sums of that
// step, too: they roll forward to it. A rank that was lost takes its shard from another rank with
// the same shard (a replica), or from the rank that keeps a copy of it (ZeroSpec.redundancy).
//
// With JobSpec.min_workers the ranks may be fewer or more than before. They then divide the
// parameters anew: whoever has a former shard, or a copy of it, sends it to all.

// The parameters that a rank has when it meets the others.
struct RankHolding {
  // The number of steps in its own shard; absent: it has no shard.
  absl::optional<uint64_t> clock;
  // True if it kept its complete sums of the step after `clock`.
  bool has_sums = false;
  // The number of shards of which it has one, and copies of others, and the index of its own; 0
  // shards: those that a rank has in the round (PlanRecovery), because no round is of other ranks.
  int shards = 0;
  int shard = 0;

  // A copy of another rank's shard.
  struct Copy {
    int shard = 0;
    uint64_t clock = 0;
    bool has_sums = false;
  };
  std::vector<Copy> copies;
};

// One rank sends a shard, or its copy of one, to another.
struct ShardTransfer {
  int shard = 0;
  int from = 0;
  int to = 0;

  friend bool operator==(const ShardTransfer&, const ShardTransfer&) = default;
};

struct RecoveryPlan {
  // The clock to go on from: that of the most advanced rank.
  uint64_t clock = 0;
  // The lowest rank that is there already. It knows how the step before `clock` ended.
  int leader = 0;
  // True if some rank or copy has to make the step before `clock` yet.
  bool rolls_forward = false;
  // The transfers to ranks that lack their shard, in the order in which ranks make them. Those who
  // send have rolled forward.
  std::vector<ShardTransfer> transfers;
  // Empty unless ranks have other shards than those of the round. Then all divide the parameters
  // anew instead of the transfers: by former shard, the rank that sends it to all.
  std::vector<int> former;
};

// Plans the recovery of the ranks of a mesh, whose holdings are given. A rank is to have the shard
// of its position along kStateAxes. NotFound: some shard is lost with all its replicas and copies;
// says which. REQUIRES: mesh.world_size() == ranks.size().
absl::StatusOr<RecoveryPlan> PlanRecovery(absl::Span<const RankHolding> ranks, const Mesh& mesh);

// Returns the copy of the shard that can be brought to `clock`; null if there is none.
const RankHolding::Copy* FindCopy(const RankHolding& rank, int shard, uint64_t clock);

// Returns, by rank, the rank that keeps a copy of its shard: one on another worker daemon; -1 if
// all ranks are on one. `daemons` has an identity of each rank's daemon. If one of `group`
// neighbouring ranks is lost, the others leave the round with it, and with the copies that they
// keep. So the keeper is of a group that has the fewest daemons in common with the owner's: where
// there is one without any, the loss of a daemon takes no shard and its copy at once. Of such ranks
// it is one that keeps the fewest so far, the first one after the owner in ring order. REQUIRES:
// `group` divides the number of ranks.
std::vector<int> Keepers(absl::Span<const uint64_t> daemons, int group);

// Returns the transfers to keepers that lack a copy at `clock`. Each owner has its shard by then.
std::vector<ShardTransfer> PlanCopies(absl::Span<const RankHolding> ranks,
                                      absl::Span<const int> keepers, uint64_t clock);

// Returns the transfers by which ranks that stay get copies of the shards that `leaving` ranks
// alone have. They go to as many ranks as possible, in ring order. REQUIRES: some rank stays.
std::vector<ShardTransfer> PlanHandOver(const Mesh& mesh, absl::Span<const int> leaving);

}  // namespace muster

#endif  // MUSTER_COMMON_MESH_RECOVERY_PLAN_H_
