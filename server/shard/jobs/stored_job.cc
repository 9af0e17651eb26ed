#include "server/shard/jobs/stored_job.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/byte_text.h"
#include "common/base/status_macros.h"
#include "proto/partition_state.pb.h"
#include "server/shard/partition/journal/partition_journal.h"
#include "server/shard/storage/mutation_log.h"

namespace muster {
namespace {

// Job ids come from clients; a folder's name has only harmless characters.
std::string LogPrefix(const std::string& job_id) {
  std::string name;
  for (const char c : job_id) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '_') {
      name.push_back(c);
    } else {
      absl::StrAppendFormat(&name, "%%%02x", static_cast<unsigned char>(c));
    }
  }
  return name + ".";
}

}  // namespace

LogFileSystem& LogFiles(const ShardResources& resources) {
  return resources.log.file_system != nullptr ? *resources.log.file_system : LogFileSystem::Posix();
}

std::string LogDirectory(const ShardResources& resources, const std::string& job_id,
                         uint32_t partition) {
  return absl::StrCat(resources.log_dir, "/", LogName(job_id, partition));
}

std::string LogName(const std::string& job_id, uint32_t partition) {
  return absl::StrCat(LogPrefix(job_id), partition);
}

absl::StatusOr<std::optional<uint64_t>> StoredGeneration(const std::string& job_id,
                                                         const ParameterStore& store) {
  std::optional<uint64_t> generation;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<uint32_t> partitions, store.Partitions(job_id));
  for (uint32_t partition : partitions) {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state,
                            ReadPartitionState(store, job_id, partition));
    if (state == nullptr) continue;
    generation = std::max({generation.value_or(0), state->generation(), state->ended_by()});
  }
  return generation;
}

absl::Status DeleteStoredGenerations(const std::string& job_id, uint64_t last,
                                     const ShardResources& resources) {
  if (resources.store == nullptr) return absl::OkStatus();
  if (last < kEveryGeneration) {
    MUSTER_ASSIGN_OR_RETURN(const std::optional<uint64_t> stored,
                            StoredGeneration(job_id, *resources.store));
    if (stored.value_or(0) > last) return absl::OkStatus();
  }
  // The state goes first: without it, logs that a crash leaves behind are not taken for anything.
  MUSTER_RETURN_IF_ERROR(resources.store->DropJob(job_id));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          LogFiles(resources).List(resources.log_dir));
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, LogPrefix(job_id))) continue;
    MUSTER_RETURN_IF_ERROR(MutationLog::Destroy(absl::StrCat(resources.log_dir, "/", name),
                                                resources.log.file_system));
  }
  return absl::OkStatus();
}

absl::Status PutPartitionState(const std::string& job_id, uint32_t partition,
                               const v1::PartitionState& state, ParameterStore& store) {
  const std::string meta = state.SerializeAsString();
  StoreBatch batch(job_id);
  batch.PutMeta(partition, AsBytes(meta));
  return store.Write(batch, ParameterStore::Durability::kSync);
}

}  // namespace muster
