#ifndef MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_RESHARDING_H_
#define MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_RESHARDING_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/partition/dense_layout.h"
#include "common/partition/memory_bounds.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/shard_state.h"

namespace muster {

struct ReshardingOptions {
  // The timeout of each call, in which ranks may have to wait for slower ones.
  absl::Duration timeout = absl::Minutes(10);
  size_t call_bytes = kReshardingCallBytes;
};

// A shard of a former division of the parameters, and the layout of its tensor rank's shares.
struct FormerShard {
  MeshPosition shard;
  const DenseLayout& layout;
};

// Sends one shard of a former division of the parameters to all ranks, each of which copies what
// belongs to its new shard: weights, optimizer state and steps, to the bit. A collective call of
// all ranks. With every former shard sent, the new shards are whole, except for rows and clock.
//
// A rank receives all bytes of the former shard, in broadcasts: 4 bytes for each weight and for
// each float of its optimizer state, and 8 bytes for each block; with Adam and every shard, 12P. A
// copy of a shard may be with any rank, so ranks also receive what is of other tensor ranks, and
// drop it. Each rank holds the bytes of one call beside its shards.
//
// `source` is the shard on rank `root`, and null on all others. `to` is this rank's new shard; its
// contents are undefined after an error. Errors are the communicator's. REQUIRES: both have their
// values, and no weights are placed elsewhere.
absl::Status SendFormerShard(Communicator& world, int root, const FormerShard& former,
                             ShardState* source, const ReshardingOptions& options, ShardState& to);

// Sends the rows of sparse tables to the ranks that own them in the new division, where rank r has
// shard r. A collective call of all ranks. With the rows of every former shard, the new shards have
// all of theirs, with optimizer state, to the bit.
//
// `former` are the former shards whose rows this rank sends. It sends each row once, in calls that
// bring a rank at most `call_bytes`: 16 bytes, and 4 for each weight and for each float of
// optimizer state. `to` is this rank's new shard, which has no rows
// yet; its rows are undefined after an error. Errors are the communicator's.
absl::Status SendFormerRows(Communicator& world, absl::Span<ShardState* const> former,
                            const ReshardingOptions& options, ShardState& to);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_RESHARDING_H_
