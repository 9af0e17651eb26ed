#ifndef MUSTER_SERVER_SHARD_PARTITION_APPLY_ROW_EVICTION_H_
#define MUSTER_SERVER_SHARD_PARTITION_APPLY_ROW_EVICTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/shard/partition/apply/clocks.h"
#include "server/shard/partition/journal/partition_health.h"
#include "server/shard/tables/partition_tables.h"
#include "server/shard/tables/table_updater.h"

namespace muster {

// Keeps a partition's rows within their memory: drops rows that have expired, and evicts others to
// the disk. Remembers that the disk is full, so that pushes of rows are refused until others can be
// evicted again; any other error of the disk closes the partition. Not thread-safe.
class RowEviction {
 public:
  // All must outlive it.
  RowEviction(PartitionTables& tables, const TableUpdater& updater, const Clocks& clocks,
              PartitionHealth& health);

  // Evicts and drops rows as far as they must go.
  absl::Status Trim();
  // Takes the result of reading or writing rows on the disk: notes whether the disk is full, and
  // closes the partition after any other error.
  void Note(const absl::Status& status);
  // Trims again if the disk was full the last time.
  void TryAgain();
  // RESOURCE_EXHAUSTED: rows of another push find no memory, since none can be evicted.
  absl::Status CheckRoom() const;

 private:
  PartitionTables& tables_;
  const TableUpdater& updater_;
  const Clocks& clocks_;
  PartitionHealth& health_;
  // Not OK while rows cannot be written for want of space.
  absl::Status disk_full_;
  // Clocks after which rows were last dropped.
  uint64_t dropped_at_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_APPLY_ROW_EVICTION_H_
