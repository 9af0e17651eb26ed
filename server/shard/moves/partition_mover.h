#ifndef MUSTER_SERVER_SHARD_MOVES_PARTITION_MOVER_H_
#define MUSTER_SERVER_SHARD_MOVES_PARTITION_MOVER_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace muster {

namespace v1 {
class HandOverChunk;
}  // namespace v1

// The move of one partition from one server to another.
struct PartitionMove {
  std::string job_id;
  uint64_t generation = 0;
  uint32_t partition = 0;
  // Number of the move among those of the job; a later one has a higher term.
  uint64_t term = 0;

  friend bool operator<(const PartitionMove& a, const PartitionMove& b) {
    return std::tie(a.job_id, a.generation, a.partition, a.term) <
           std::tie(b.job_id, b.generation, b.partition, b.term);
  }
};

// A server's part in moves of partitions; see server/shard/moves/partition_move.h for the protocol.
// All calls block. Thread-safe.
class PartitionMover {
 public:
  // Takes hand-over chunks in order; an error ends the sending.
  using ChunkSink = absl::FunctionRef<absl::Status(const v1::HandOverChunk&)>;

  virtual ~PartitionMover() = default;

  // Takes the coordinator's present orders: the moves away from here that are under way, and the
  // copies that are to be deleted here. Partitions that stand still for a move in neither list go
  // on. Returns the error of one that cannot; call again. Calls with the same orders are cheap, and
  // make up for what failed elsewhere since.
  virtual absl::Status Permit(const std::vector<PartitionMove>& leaving,
                              const std::vector<PartitionMove>& released) = 0;

  // Sends a partition as its old owner. Errors as the rpc HandOver. RESOURCE_EXHAUSTED, as of all
  // these calls: there was no memory, and nothing was lost.
  virtual absl::Status HandOver(const PartitionMove& move, ChunkSink send) = 0;

  // Takes a partition over as its new owner. Returns OK once it is here whole, durable and
  // recovered, for requests under later terms than the move's. `fetch` hands all that HandOver
  // sends to its argument, unless the partition is here already. RESOURCE_EXHAUSTED: there is no
  // room. ABORTED: a later generation is here. After other errors, and fetch's: try again.
  virtual absl::Status Adopt(const PartitionMove& move,
                             absl::FunctionRef<absl::Status(ChunkSink)> fetch) = 0;

  // Deletes what this move has left here of a partition: the old owner's, which stood still for it,
  // or a copy. Anything else stays. Idempotent.
  virtual absl::Status Release(const PartitionMove& move) = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_MOVES_PARTITION_MOVER_H_
