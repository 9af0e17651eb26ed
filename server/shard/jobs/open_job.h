#ifndef MUSTER_SERVER_SHARD_JOBS_OPEN_JOB_H_
#define MUSTER_SERVER_SHARD_JOBS_OPEN_JOB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/shard/jobs/shard_resources.h"
#include "server/shard/partition/partition_executor.h"
#include "server/shard/resources/executor.h"
#include "server/shard/resources/memory_budget.h"
#include "server/shard/tables/job_tables.h"

namespace muster {

class CheckpointReader;
class Takeover;

// The partitions of one generation of a job on this server. Thread-safe; one thread at a time
// changes the set of partitions.
class OpenJob {
 public:
  // Opens the partitions that the job's request names: from what is stored of the same generation,
  // else from the generation that it takes over, else from the request's checkpoint, else from
  // initial values. Drops older generations. `ended` is the job that is open under an earlier
  // generation, if that is to be taken over; null: it is not open. Blocks, and ends soon with
  // ABORTED once the generation is unwanted. Errors as the rpc OpenTables.
  static absl::StatusOr<std::shared_ptr<OpenJob>> Open(std::shared_ptr<const JobTables> tables,
                                                       const ShardResources& resources,
                                                       OpenJob* ended = nullptr);

  // REQUIRES: Close has returned.
  ~OpenJob();

  const JobTables& tables() const { return *tables_; }
  using Partitions = std::map<uint32_t, std::shared_ptr<PartitionExecutor>>;
  // Returns a partition; null if it is not open (see Absence).
  std::shared_ptr<PartitionExecutor> partition(uint32_t partition) const;
  // Reason why a partition is not open: it is another server's, it is on its way to one, or it has
  // failed and was not opened again so far.
  enum class Absence { kNotHere, kStandsStill, kFailed };
  struct Found {
    // Null: `absence` says why, as of the same moment.
    std::shared_ptr<PartitionExecutor> partition;
    Absence absence = Absence::kNotHere;

    // Returns whether only Reopen makes the partition serve again.
    bool failed() const {
      return partition != nullptr ? partition->failed() : absence == Absence::kFailed;
    }
  };
  Found Find(uint32_t partition) const;
  Partitions partitions() const;

  // Adds a partition that is stored here, or that stood still. Blocks while it recovers.
  // FAILED_PRECONDITION: the partition is not here. UNAVAILABLE: it is on its way to another
  // server. Other errors as OpenTables.
  absl::Status AddPartition(uint32_t partition);
  // Ends a partition, open or not, as PartitionExecutor::Close does. Find then says `absence`.
  void TakeOut(uint32_t partition, Absence absence);
  // Ends a partition that failed, and recovers it as after a restart. Blocks. UNAVAILABLE: what is
  // stored cannot be read or written yet; try again. Other errors as AddPartition.
  absl::Status Reopen(uint32_t partition);

  // Gives an open partition to a later generation. REQUIRES: it is open, and ended.
  std::shared_ptr<PartitionExecutor> GiveAway(uint32_t partition);
  // Returns whether a partition was given away, so that the job is not whole.
  bool gave_away() const { return gave_away_; }

  // Ends all partitions, and answers the operations that they hold or get with `status`. Blocks
  // until nothing runs any more.
  void Close(const absl::Status& status);

 private:
  OpenJob(std::shared_ptr<const JobTables> tables, const ShardResources& resources);

  // Returns an error unless this server can write the job's checkpoints where others find them.
  absl::Status CheckRoot() const;
  // Adds this server's name to an error that says what was lost; returns others as they are.
  absl::Status NamingThisServer(const absl::Status& status) const;
  // Returns UnwantedError once the generation is unwanted. Called before more than a moment's work.
  absl::Status CheckWanted() const;
  // Returns what the partitions need before any row.
  uint64_t PredictedBytes() const;
  // Takes that from the budget, but for what `ended` gives back, if it is not null.
  absl::Status TakeMemory(const OpenJob* ended);
  // Drops what is stored of older generations. ABORTED: a newer one is stored.
  absl::Status DropOlderGenerations();
  // Drops rows that an earlier generation, which was not durable, had evicted.
  absl::Status DropScratch();
  // `takeover` is null unless the generation takes an earlier one over.
  absl::Status OpenAll(Takeover* takeover);
  // Leaves nothing stored of partitions of earlier generations that were not taken over, since they
  // had moved to other servers.
  absl::Status DropLeftBehind() const;
  // Does `work` for the index of each of the request's partitions, several at a time, until it
  // fails for one. DATA_LOSS is a loss of the server's state.
  absl::Status ForEachTerm(absl::FunctionRef<absl::Status(int)> work) const;
  // Recovers a partition that is stored here; leaves `opened` null if it is not.
  absl::Status ContinueOne(uint32_t partition, std::shared_ptr<PartitionExecutor>& opened) const;
  absl::StatusOr<std::unique_ptr<Partition>> OpenPartition(uint32_t partition,
                                                           std::shared_ptr<Executor> strand);
  // Fills a partition's tables from the request's checkpoint.
  absl::Status Restore(MemoryShare& memory, PartitionTables& tables);
  // Recovers a partition from what is stored; null when nothing is.
  absl::StatusOr<std::unique_ptr<Partition>> Continue(uint32_t partition,
                                                      std::shared_ptr<Executor> strand) const;
  // Deletes a partition's values and log; its state stays.
  absl::Status DeleteValues(uint32_t partition) const;
  // Makes an empty journal, and deletes what a start that was cut short has left, rows included.
  absl::StatusOr<std::unique_ptr<PartitionJournal>> NewJournal(uint32_t partition);

  const std::shared_ptr<const JobTables> tables_;
  const ShardResources& resources_;
  // Memory that the partitions need before any row.
  MemoryShare memory_;
  mutable absl::Mutex mutex_;
  Partitions partitions_ ABSL_GUARDED_BY(mutex_);
  // Reasons of absence; partitions in neither map are not here.
  std::map<uint32_t, Absence> absent_ ABSL_GUARDED_BY(mutex_);
  // Opened for the first partition that needs it: one that is recovered from the store does not,
  // and the checkpoint may be gone by then. Null after opening.
  std::unique_ptr<CheckpointReader> checkpoint_;
  // Const but to whoever has the job's turn.
  bool gave_away_ = false;
};

// Return the answers to callers of a partition that stands still, or has failed.
absl::Status StandsStillError(const std::string& job_id, uint32_t partition);
absl::Status FailedError(const std::string& job_id, uint32_t partition);
// Returns the answer to requests of a generation that a later one has replaced.
absl::Status GenerationFenced(const std::string& job_id, uint64_t asked, uint64_t current);
// Returns the answer to those who open a generation that was dropped or replaced meanwhile.
absl::Status UnwantedError(const std::string& job_id, uint64_t generation);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_JOBS_OPEN_JOB_H_
