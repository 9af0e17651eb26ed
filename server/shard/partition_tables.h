#ifndef MUSTER_SERVER_SHARD_PARTITION_TABLES_H_
#define MUSTER_SERVER_SHARD_PARTITION_TABLES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/tables/sparse_table.h"
#include "server/shard/buffer_pool.h"
#include "server/shard/dense_table.h"
#include "server/shard/job_tables.h"

namespace muster {

// The tables of one partition: its blocks of the dense table and its rows of each sparse table. Not
// thread-safe.
struct PartitionTables {
  // Initial values.
  PartitionTables(std::shared_ptr<const JobTables> job_tables, uint32_t partition_index,
                  std::shared_ptr<BufferPool> pool);

  uint64_t sparse_rows() const;
  uint64_t sparse_bytes() const;

  const std::shared_ptr<const JobTables> job;
  const uint32_t partition;
  DenseTable dense;
  // sparse[i] is table i + 1.
  std::vector<SparseTable> sparse;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_TABLES_H_
