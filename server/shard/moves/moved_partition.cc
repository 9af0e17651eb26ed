#include "server/shard/moves/moved_partition.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/byte_text.h"
#include "common/base/status_macros.h"
#include "proto/partition_state.pb.h"
#include "server/shard/jobs/stored_job.h"
#include "server/shard/partition/journal/partition_journal.h"
#include "server/shard/storage/parameter_store.h"

namespace muster {

absl::Status CrashedHere() { return absl::UnavailableError("crashed"); }

std::string NameOf(const PartitionMove& move) {
  return absl::StrCat("partition ", move.partition, " of job ", move.job_id);
}

absl::StatusOr<std::unique_ptr<v1::PartitionState>> MovedPartition::ReadState() const {
  return ReadPartitionState(*resources_.store, move_.job_id, move_.partition);
}

absl::Status MovedPartition::PutState(const v1::PartitionState& state) const {
  return PutPartitionState(move_.job_id, move_.partition, state, *resources_.store);
}

absl::Status MovedPartition::Replace(const v1::PartitionState& state) const {
  const std::string meta = state.SerializeAsString();
  StoreBatch batch(move_.job_id);
  batch.PutMeta(move_.partition, AsBytes(meta));
  for (uint32_t table : Tables(state.sparse_tables())) {
    batch.DeletePartition(table, move_.partition);
  }
  MUSTER_RETURN_IF_ERROR(resources_.store->Write(batch, ParameterStore::Durability::kSync));
  if (resources_.crash_point->Pass("move_deleted")) return CrashedHere();
  return MutationLog::Destroy(LogDirectory(resources_, move_.job_id, move_.partition),
                              resources_.log.file_system);
}

v1::PartitionState MovedPartition::NotHere(uint32_t sparse_tables) const {
  v1::PartitionState state;
  state.set_format_version(1);
  state.set_generation(move_.generation);
  state.set_left(true);
  state.set_sparse_tables(sparse_tables);
  return state;
}

absl::StatusOr<std::unique_ptr<MutationLog>> MovedPartition::OpenLog() const {
  return MutationLog::Open(LogDirectory(resources_, move_.job_id, move_.partition), resources_.log);
}

absl::StatusOr<std::unique_ptr<MutationLog>> MovedPartition::NewLog(uint64_t first_lsn) const {
  MutationLog::Options options = resources_.log;
  options.first_lsn = first_lsn;
  return MutationLog::Open(LogDirectory(resources_, move_.job_id, move_.partition), options);
}

std::vector<uint32_t> MovedPartition::Tables(uint32_t sparse_tables) {
  std::vector<uint32_t> stored;
  for (uint32_t table = 0; table <= sparse_tables; ++table) stored.push_back(table);
  stored.push_back(kTierTable);
  return stored;
}

}  // namespace muster
