#ifndef MUSTER_SERVER_SHARD_TABLES_PARTITION_TABLES_H_
#define MUSTER_SERVER_SHARD_TABLES_PARTITION_TABLES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "server/shard/storage/parameter_store.h"
#include "server/shard/tables/dense_table.h"
#include "server/shard/tables/job_tables.h"
#include "server/shard/tables/tiered_table.h"

namespace muster {

// One partition's blocks of the dense table and rows of each sparse table. Not thread-safe.
struct PartitionTables {
  // Starts with initial values. `store` must outlive the tables; it may be null if the job is not
  // durable and keeps all rows in memory.
  PartitionTables(std::shared_ptr<const JobTables> job_tables, uint32_t partition_index,
                  std::shared_ptr<BufferPool> pool, ParameterStore* store = nullptr);

  // Goes on as the tables of a later generation of the job, with the same values. What waits for
  // the open clock's end is forgotten. REQUIRES: equal schemas.
  void GoOnWith(std::shared_ptr<const JobTables> later);

  uint64_t sparse_rows() const;
  uint64_t rows_on_disk() const;
  // Return the memory that rows have, and what they use of it.
  uint64_t sparse_bytes() const;
  uint64_t used_row_bytes() const;

  // Returns whether the rows use more memory than the partition's share of the job's cache.
  bool OverCache() const;
  // Evicts rows until they use less than that share, except rows that include record `before_lsn`
  // or a later one. `completed` is the number of completed clocks. Errors as TieredTable::Evict.
  absl::Status TrimCache(uint64_t before_lsn, uint64_t completed);
  // Drops some of the rows that have expired.
  absl::Status DropExpired(uint64_t completed);

  std::shared_ptr<const JobTables> job;
  const uint32_t partition;
  DenseTable dense;
  // sparse[i] is table i + 1.
  std::vector<TieredTable> sparse;
  // The generation that the tables were made for, whose layout and specifications they refer to.
  const std::shared_ptr<const JobTables> made_for;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_PARTITION_TABLES_H_
