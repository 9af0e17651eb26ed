#include "server/shard/partition_tables.h"

#include <utility>

namespace muster {

PartitionTables::PartitionTables(std::shared_ptr<const JobTables> job_tables,
                                 uint32_t partition_index, std::shared_ptr<BufferPool> pool)
    : job(std::move(job_tables)),
      partition(partition_index),
      dense(job, partition, std::move(pool)) {
  sparse.reserve(job->tables().sparse.size());
  for (const SparseTableSpec& spec : job->tables().sparse) {
    sparse.emplace_back(spec, job->seed(), job->row_optimizer());
  }
}

uint64_t PartitionTables::sparse_rows() const {
  uint64_t rows = 0;
  for (const SparseTable& table : sparse) rows += table.rows();
  return rows;
}

uint64_t PartitionTables::sparse_bytes() const {
  uint64_t bytes = 0;
  for (const SparseTable& table : sparse) bytes += table.memory_bytes();
  return bytes;
}

}  // namespace muster
