#ifndef MUSTER_SERVER_SHARD_MOVES_MOVED_PARTITION_H_
#define MUSTER_SERVER_SHARD_MOVES_MOVED_PARTITION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/shard/jobs/shard_resources.h"
#include "server/shard/moves/partition_mover.h"
#include "server/shard/storage/mutation_log.h"

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// Returns "partition 3 of job j-1", for messages.
std::string NameOf(const PartitionMove& move);

// State, values and log of a partition that is on its way, as a server with a data folder stores
// them. Not thread-safe: whoever has the move has it alone.
class MovedPartition {
 public:
  // `resources` outlive the object; they have a store.
  MovedPartition(const ShardResources& resources, const PartitionMove& move)
      : resources_(resources), move_(move) {}

  std::string Name() const { return NameOf(move_); }

  // Returns the state; null if nothing of the partition was ever here.
  absl::StatusOr<std::unique_ptr<v1::PartitionState>> ReadState() const;
  // Writes the state durably.
  absl::Status PutState(const v1::PartitionState& state) const;
  // Deletes the partition's values and log, and stores `state`, which says what tables there are.
  absl::Status Replace(const v1::PartitionState& state) const;
  // Returns what stands in place of the state of a partition that is not here.
  v1::PartitionState NotHere(uint32_t sparse_tables) const;

  absl::StatusOr<std::unique_ptr<MutationLog>> OpenLog() const;
  // Makes a log. REQUIRES: there is none yet.
  absl::StatusOr<std::unique_ptr<MutationLog>> NewLog(uint64_t first_lsn) const;

  // Returns all tables that may hold values of the partition.
  static std::vector<uint32_t> Tables(uint32_t sparse_tables);

 private:
  const ShardResources& resources_;
  const PartitionMove move_;
};

// Returns the error that ends a call whose server "crashed" at a crash point.
absl::Status CrashedHere();

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_MOVES_MOVED_PARTITION_H_
