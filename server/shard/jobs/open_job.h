#ifndef MUSTER_SERVER_SHARD_JOBS_OPEN_JOB_H_
#define MUSTER_SERVER_SHARD_JOBS_OPEN_JOB_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/checkpoint/root_mark.h"
#include "common/checkpoint/storage.h"
#include "common/trace/trace_recorder.h"
#include "server/shard/partition/partition_executor.h"
#include "server/shard/resources/crash_point.h"
#include "server/shard/resources/executor.h"
#include "server/shard/resources/memory_budget.h"
#include "server/shard/resources/replay_meter.h"
#include "server/shard/resources/ended_slots.h"
#include "server/shard/resources/served_bytes.h"
#include "server/shard/storage/mutation_log.h"
#include "server/shard/storage/parameter_store.h"
#include "server/shard/tables/job_tables.h"

namespace muster {

class CheckpointReader;

// Resources that the partitions of all jobs on a server share. The members outlive every job.
struct ShardResources {
  std::shared_ptr<BufferPool> pool;
  MemoryBudget* budget = nullptr;
  Executor* executor = nullptr;
  // Runs tasks that block on checkpoint files.
  std::shared_ptr<Executor> files;
  // Carries out syncs of logs.
  std::shared_ptr<Executor> syncs;
  CheckpointStorage* checkpoint_storage = nullptr;
  RootCheck root_check = RootCheck::kWritable;
  // Name of the server in errors that others read.
  std::string server_name;
  CrashPoint* crash_point = nullptr;
  // Null: nothing is stored.
  ParameterStore* store = nullptr;
  std::string log_dir;
  MutationLog::Options log;
  size_t queue_bytes = 0;
  uint64_t log_bytes = 0;
  // Returns whether somebody waits to drop this generation of a job, or to open a later one; who
  // opens its partitions then stops. Thread-safe.
  std::function<bool(const std::string& job_id, uint64_t generation)> unwanted;
  // Number of threads that bring partitions of one job back from their logs.
  int open_threads = 1;
  ReplayMeter* replays = nullptr;
  ServedBytes* served = nullptr;
  const EndedSlots* ended_slots = nullptr;
  TraceRecorder* trace = nullptr;
};

// The partitions of one generation of a job on this server. Thread-safe; one thread at a time
// changes the set of partitions.
class OpenJob {
 public:
  // Opens the partitions that the job's request names: from what is stored of the same generation,
  // else from the request's checkpoint, else from initial values. Drops older generations. Blocks,
  // and ends soon with ABORTED once the generation is unwanted. Errors as the rpc OpenTables.
  static absl::StatusOr<std::shared_ptr<OpenJob>> Open(std::shared_ptr<const JobTables> tables,
                                                       const ShardResources& resources);

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
  // Takes what the partitions need before any row from the budget.
  absl::Status TakeMemory();
  // Drops what is stored of older generations. ABORTED: a newer one is stored.
  absl::Status DropOlderGenerations();
  // Drops rows that an earlier generation, which was not durable, had evicted.
  absl::Status DropScratch();
  absl::Status OpenAll();
  using Opened = std::vector<std::shared_ptr<PartitionExecutor>>;
  // Recovers those of the request's partitions that are stored here, several at a time.
  absl::Status ContinueAll(Opened& opened);
  absl::StatusOr<std::unique_ptr<Partition>> OpenPartition(uint32_t partition,
                                                           std::shared_ptr<Executor> strand);
  // Fills a partition's tables from the request's checkpoint.
  absl::Status Restore(MemoryShare& memory, PartitionTables& tables);
  // Recovers a partition from what is stored; null when nothing is.
  absl::StatusOr<std::unique_ptr<Partition>> Continue(uint32_t partition,
                                                      std::shared_ptr<Executor> strand) const;
  // Makes an empty journal, and deletes what a start that was cut short has left, rows included.
  absl::StatusOr<std::unique_ptr<PartitionJournal>> NewJournal(uint32_t partition);
  std::unique_ptr<Partition> MakePartition(std::unique_ptr<PartitionTables> tables,
                                           std::unique_ptr<PartitionJournal> journal,
                                           std::shared_ptr<Executor> strand) const;

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
};

// Return the answers to callers of a partition that stands still, or has failed.
absl::Status StandsStillError(const std::string& job_id, uint32_t partition);
absl::Status FailedError(const std::string& job_id, uint32_t partition);
// Returns the answer to those who open a generation that was dropped or replaced meanwhile.
absl::Status UnwantedError(const std::string& job_id, uint64_t generation);

// Return the folder of a partition's log, and its name.
std::string LogDirectory(const ShardResources& resources, const std::string& job_id,
                         uint32_t partition);
std::string LogName(const std::string& job_id, uint32_t partition);

// Stands for all generations of a job.
inline constexpr uint64_t kEveryGeneration = std::numeric_limits<uint64_t>::max();

// Returns the generation of what is stored of a job, or nothing if nothing is. There is one alone,
// since a new one starts by deleting the old.
absl::StatusOr<std::optional<uint64_t>> StoredGeneration(const std::string& job_id,
                                                         const ParameterStore& store);

// Deletes all that is stored of a job (values, state, logs), unless it is of a generation after
// `last`. OK when there is nothing. REQUIRES: the job is not open.
absl::Status DeleteStoredGenerations(const std::string& job_id, uint64_t last,
                                     const ShardResources& resources);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_JOBS_OPEN_JOB_H_
