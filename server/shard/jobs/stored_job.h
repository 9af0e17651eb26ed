#ifndef MUSTER_SERVER_SHARD_JOBS_STORED_JOB_H_
#define MUSTER_SERVER_SHARD_JOBS_STORED_JOB_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/shard/jobs/shard_resources.h"
#include "server/shard/storage/log_file.h"
#include "server/shard/storage/parameter_store.h"

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// Return the folder of a partition's log, its name, and the file system that it is in.
std::string LogDirectory(const ShardResources& resources, const std::string& job_id,
                         uint32_t partition);
std::string LogName(const std::string& job_id, uint32_t partition);
LogFileSystem& LogFiles(const ShardResources& resources);

// Stands for all generations of a job.
inline constexpr uint64_t kEveryGeneration = std::numeric_limits<uint64_t>::max();

// Returns the generation of what is stored of a job, or the one that is to go on with it; nothing
// if nothing is stored. Partitions that wait to be taken over may be of earlier ones; all others
// are of one generation, since a new one starts by deleting the old.
absl::StatusOr<std::optional<uint64_t>> StoredGeneration(const std::string& job_id,
                                                         const ParameterStore& store);

// Deletes all that is stored of a job (values, state, logs), unless it is of a generation after
// `last`, or for one. OK when there is nothing. REQUIRES: the job is not open.
absl::Status DeleteStoredGenerations(const std::string& job_id, uint64_t last,
                                     const ShardResources& resources);

// Writes a partition's state durably. REQUIRES: a store.
absl::Status PutPartitionState(const std::string& job_id, uint32_t partition,
                               const v1::PartitionState& state, ParameterStore& store);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_JOBS_STORED_JOB_H_
