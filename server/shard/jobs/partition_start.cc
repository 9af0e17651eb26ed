#include "server/shard/jobs/partition_start.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/jobs/stored_job.h"
#include "server/shard/partition/journal/partition_journal.h"

namespace muster {

std::unique_ptr<Partition> MakePartition(std::unique_ptr<PartitionTables> tables,
                                         std::unique_ptr<PartitionJournal> journal,
                                         std::shared_ptr<Executor> strand,
                                         const ShardResources& resources) {
  Partition::Options options;
  options.pool = resources.pool;
  options.budget = resources.budget;
  options.checkpoint_storage = resources.checkpoint_storage;
  options.crash_point = resources.crash_point;
  options.parked_bytes = resources.queue_bytes;
  options.log_bytes = resources.log_bytes;
  options.replays = resources.replays;
  options.served = resources.served;
  options.ended_slots = resources.ended_slots;
  options.trace = resources.trace;
  if (strand != nullptr) {
    options.strand = std::move(strand);
    options.files = resources.files;
    options.syncs = resources.syncs;
  }
  const uint64_t start = tables->job->request().start_clock();
  return std::make_unique<Partition>(std::move(tables), start, std::move(journal),
                                     std::move(options));
}

absl::StatusOr<std::unique_ptr<PartitionJournal>> OpenStoredJournal(
    const std::string& job_id, uint32_t partition, const v1::PartitionState& state,
    const ShardResources& resources) {
  const std::string directory = LogDirectory(resources, job_id, partition);
  // An empty log would be made in place of one that was lost, and stand for "nothing happened
  // since".
  if (absl::Status status = LogFiles(resources).List(directory).status(); !status.ok()) {
    if (!absl::IsNotFound(status)) return status;
    return WithLostState(
        absl::FailedPreconditionError(absl::StrCat(
            "the values of partition ", partition, " of job ", job_id,
            " are on this server, but its log ", directory,
            " is gone, and with it every push since the last cut; go back to a checkpoint under a "
            "new generation")),
        LostState::kServerState);
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<PartitionJournal> journal,
                          PartitionJournal::Open(*resources.store, directory, resources.log));
  if (journal->last_lsn() < state.lsn()) {
    return absl::DataLossError(absl::StrCat("the log ", directory, " of job ", job_id,
                                            " ends at record ", journal->last_lsn(),
                                            ", but the stored values include record ", state.lsn(),
                                            "; go back to a checkpoint under a new generation"));
  }
  return journal;
}

absl::StatusOr<std::unique_ptr<Partition>> RecoverPartition(
    std::shared_ptr<const JobTables> tables, uint32_t partition, const v1::PartitionState& state,
    std::shared_ptr<Executor> strand, const ShardResources& resources,
    absl::FunctionRef<absl::Status()> go_on) {
  if (state.schema_fingerprint() != tables->fingerprint()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the tables of job ", tables->job_id(), " differ from those stored here under generation ",
        tables->generation(), "; a changed job needs a new generation"));
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<PartitionJournal> journal,
                          OpenStoredJournal(tables->job_id(), partition, state, resources));
  std::unique_ptr<Partition> recovered = MakePartition(
      std::make_unique<PartitionTables>(tables, partition, resources.pool, resources.store),
      std::move(journal), std::move(strand), resources);
  MUSTER_RETURN_IF_ERROR(recovered->Recover(state, go_on));
  return recovered;
}

}  // namespace muster
