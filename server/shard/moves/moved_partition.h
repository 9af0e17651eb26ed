#ifndef MUSTER_SERVER_SHARD_MOVES_MOVED_PARTITION_H_
#define MUSTER_SERVER_SHARD_MOVES_MOVED_PARTITION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/shard/jobs/open_job.h"
#include "server/shard/moves/partition_mover.h"
#include "server/shard/storage/mutation_log.h"

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// "partition 3 of job j-1", for messages.
std::string NameOf(const PartitionMove& move);

// What a server with a data folder stores of a partition that is on its way: state, values and log.
// Not thread-safe: whoever has the move has it alone.
class MovedPartition {
 public:
  // `resources` outlive it; they have a store.
  MovedPartition(const ShardResources& resources, const PartitionMove& move)
      : resources_(resources), move_(move) {}

  std::string Name() const { return NameOf(move_); }

  // Null: nothing of it was ever here.
  absl::StatusOr<std::unique_ptr<v1::PartitionState>> ReadState() const;
  // Synced.
  absl::Status PutState(const v1::PartitionState& state) const;
  // Deletes the partition's values and log, and puts `state` in place of its state, which names the
  // tables there are.
  absl::Status Replace(const v1::PartitionState& state) const;
  // What stands in place of the state of a partition that is not here.
  v1::PartitionState NotHere(uint32_t sparse_tables) const;

  absl::StatusOr<std::unique_ptr<MutationLog>> OpenLog() const;
  // For a log that is not there yet.
  absl::StatusOr<std::unique_ptr<MutationLog>> NewLog(uint64_t first_lsn) const;

  // All that may hold values of it.
  static std::vector<uint32_t> Tables(uint32_t sparse_tables);

 private:
  const ShardResources& resources_;
  const PartitionMove move_;
};

// An error that ends a call whose server "crashed" at a crash point.
absl::Status CrashedHere();

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_MOVES_MOVED_PARTITION_H_
