#include "server/shard/tables/partition_tables.h"

#include <utility>

#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"

namespace muster {

PartitionTables::PartitionTables(std::shared_ptr<const JobTables> job_tables,
                                 uint32_t partition_index, std::shared_ptr<BufferPool> pool,
                                 ParameterStore* store)
    : job(std::move(job_tables)),
      partition(partition_index),
      dense(job, partition, std::move(pool)),
      made_for(job) {
  const bool evicts = job->cache_bytes() > 0;
  TieredTable::Options options;
  options.policy = job->row_policy();
  if (job->durable() || evicts) options.store = store;
  options.durability =
      job->durable() ? ParameterStore::Durability::kBuffered : ParameterStore::Durability::kScratch;
  options.job = job->job_id();
  options.partition = partition;
  options.evicts = evicts && store != nullptr;
  options.notes_dropped = !job->request().checkpoint_root().empty();
  sparse.reserve(job->tables().sparse.size());
  for (const SparseTableSpec& spec : job->tables().sparse) {
    options.table = static_cast<uint32_t>(sparse.size()) + 1;
    sparse.emplace_back(spec, job->seed(), job->row_optimizer(), options);
  }
}

void PartitionTables::GoOnWith(std::shared_ptr<const JobTables> later) {
  job = std::move(later);
  dense.GoOnWith(job);
}

uint64_t PartitionTables::sparse_rows() const {
  uint64_t rows = 0;
  for (const TieredTable& table : sparse) rows += table.rows();
  return rows;
}

uint64_t PartitionTables::rows_on_disk() const {
  uint64_t rows = 0;
  for (const TieredTable& table : sparse) rows += table.rows_on_disk();
  return rows;
}

uint64_t PartitionTables::sparse_bytes() const {
  uint64_t bytes = 0;
  for (const TieredTable& table : sparse) bytes += table.memory_bytes();
  return bytes;
}

uint64_t PartitionTables::used_row_bytes() const {
  uint64_t bytes = 0;
  for (const TieredTable& table : sparse) bytes += table.used_bytes();
  return bytes;
}

bool PartitionTables::OverCache() const {
  return job->cache_bytes() > 0 && used_row_bytes() > job->cache_bytes();
}

absl::Status PartitionTables::TrimCache(uint64_t before_lsn, uint64_t completed) {
  if (!OverCache()) return absl::OkStatus();
  // Some more than must be, so that the next rows find room and evictions come in large batches.
  const uint64_t used = used_row_bytes();
  const uint64_t freed = used - (job->cache_bytes() - job->cache_bytes() / 16);
  for (TieredTable& table : sparse) {
    if (!table.evicts()) continue;
    const double share = static_cast<double>(table.used_bytes()) / static_cast<double>(used);
    MUSTER_RETURN_IF_ERROR(table.Evict(
        static_cast<uint64_t>(share * static_cast<double>(freed)) + 1, before_lsn, completed));
  }
  return absl::OkStatus();
}

absl::Status PartitionTables::DropExpired(uint64_t completed) {
  for (TieredTable& table : sparse) MUSTER_RETURN_IF_ERROR(table.DropExpired(completed));
  return absl::OkStatus();
}

}  // namespace muster
