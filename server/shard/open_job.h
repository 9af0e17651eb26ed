#ifndef MUSTER_SERVER_SHARD_OPEN_JOB_H_
#define MUSTER_SERVER_SHARD_OPEN_JOB_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/root_mark.h"
#include "common/checkpoint/storage.h"
#include "server/shard/buffer_pool.h"
#include "server/shard/crash_point.h"
#include "server/shard/executor.h"
#include "server/shard/job_tables.h"
#include "server/shard/memory_budget.h"
#include "server/shard/partition_executor.h"
#include "server/shard/storage/mutation_log.h"
#include "server/shard/storage/parameter_store.h"

namespace muster {

class CheckpointReader;

// What the partitions of all jobs on a server share. The members outlive every job.
struct ShardResources {
  std::shared_ptr<BufferPool> pool;
  MemoryBudget* budget = nullptr;
  Executor* executor = nullptr;
  CheckpointStorage* checkpoint_storage = nullptr;
  RootCheck root_check = RootCheck::kWritable;
  // What the server is called in errors that others read.
  std::string server_name;
  CrashPoint* crash_point = nullptr;
  // Null: nothing is stored.
  ParameterStore* store = nullptr;
  std::string log_dir;
  MutationLog::Options log;
  size_t queue_bytes = 0;
  uint64_t log_bytes = 0;
};

// The partitions of one generation of a job on this server. Its set of partitions is const after
// opening; thread-safe.
class OpenJob {
 public:
  // Opens the partitions that the job's request names: from what is stored of the same generation,
  // otherwise from the request's checkpoint, otherwise from initial values; stored state of older
  // generations is dropped. Blocks while it reads. Errors as the rpc OpenTables.
  static absl::StatusOr<std::shared_ptr<OpenJob>> Open(std::shared_ptr<const JobTables> tables,
                                                       const ShardResources& resources);

  // REQUIRES: Close has returned.
  ~OpenJob();

  const JobTables& tables() const { return *tables_; }
  // Null: not here.
  PartitionExecutor* partition(uint32_t partition) const;
  const std::map<uint32_t, std::shared_ptr<PartitionExecutor>>& partitions() const {
    return partitions_;
  }

  // Ends all partitions; what they hold and get is answered with `status`. Blocks until nothing
  // runs any more.
  void Close(const absl::Status& status);

 private:
  OpenJob(std::shared_ptr<const JobTables> tables, const ShardResources& resources);

  // Whether this server can write the job's checkpoints where others find them.
  absl::Status CheckRoot() const;
  // Takes the dense tables' memory from the budget.
  absl::Status TakeMemory();
  // Drops what is stored of older generations. ABORTED: something newer is.
  absl::Status DropOlderGenerations();
  absl::Status OpenAll();
  absl::StatusOr<std::unique_ptr<Partition>> OpenPartition(uint32_t partition);
  // Fills a partition's tables from the request's checkpoint.
  absl::Status Restore(MemoryShare& memory, PartitionTables& tables);
  // Continues from the stored state; null when there is none.
  absl::StatusOr<std::unique_ptr<Partition>> Continue(uint32_t partition);
  // An empty journal: whatever a start that was cut short has left is deleted.
  absl::StatusOr<std::unique_ptr<PartitionJournal>> NewJournal(uint32_t partition);
  std::unique_ptr<Partition> MakePartition(std::unique_ptr<PartitionTables> tables,
                                           std::unique_ptr<PartitionJournal> journal) const;

  const std::shared_ptr<const JobTables> tables_;
  const ShardResources& resources_;
  MemoryShare dense_memory_;
  std::map<uint32_t, std::shared_ptr<PartitionExecutor>> partitions_;
  // Opened for the first partition that needs it: one that continues from what is stored does not,
  // and the checkpoint may be gone by then. Null after opening.
  std::unique_ptr<CheckpointReader> checkpoint_;
};

// Stands for all generations of a job.
inline constexpr uint64_t kEveryGeneration = std::numeric_limits<uint64_t>::max();

// Deletes all that is stored of a job (values, state, logs), unless it is of a generation after
// `last`. OK when there is nothing. REQUIRES: it is not open.
absl::Status DeleteStoredGenerations(const std::string& job_id, uint64_t last,
                                     const ShardResources& resources);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_OPEN_JOB_H_
