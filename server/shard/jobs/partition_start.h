#ifndef MUSTER_SERVER_SHARD_JOBS_PARTITION_START_H_
#define MUSTER_SERVER_SHARD_JOBS_PARTITION_START_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/shard/jobs/shard_resources.h"
#include "server/shard/partition/partition.h"
#include "server/shard/tables/job_tables.h"

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// Returns a partition at its generation's start clock. Without a strand it waits for all that it
// has to do.
std::unique_ptr<Partition> MakePartition(std::unique_ptr<PartitionTables> tables,
                                         std::unique_ptr<PartitionJournal> journal,
                                         std::shared_ptr<Executor> strand,
                                         const ShardResources& resources);

// Opens the log of a partition with this stored state. FAILED_PRECONDITION (with the loss noted):
// it is gone. DATA_LOSS: it lacks records that the state includes.
absl::StatusOr<std::unique_ptr<PartitionJournal>> OpenStoredJournal(
    const std::string& job_id, uint32_t partition, const v1::PartitionState& state,
    const ShardResources& resources);

// Recovers a partition from its stored state and log, under the generation that they are of.
// INVALID_ARGUMENT: the tables are others. Other errors as OpenStoredJournal and
// Partition::Recover.
absl::StatusOr<std::unique_ptr<Partition>> RecoverPartition(
    std::shared_ptr<const JobTables> tables, uint32_t partition, const v1::PartitionState& state,
    std::shared_ptr<Executor> strand, const ShardResources& resources,
    absl::FunctionRef<absl::Status()> go_on);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_JOBS_PARTITION_START_H_
