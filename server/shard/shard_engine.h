#ifndef MUSTER_SERVER_SHARD_SHARD_ENGINE_H_
#define MUSTER_SERVER_SHARD_SHARD_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/root_mark.h"
#include "server/shard/calls/partition_host.h"

namespace muster {

class CheckpointStorage;
class Executor;
class LogFileSystem;
class ParameterStore;
class PartitionMover;

namespace v1 {
class ReplayStatus;
}  // namespace v1

// The parameter server without a network: partitions of any number of jobs in memory, optimizers,
// clocks, ledgers, and, for jobs with durability EVERY_PUSH, their logs and images on disk.
//
// Execution: every partition has one serial executor (a strand) on a shared pool of threads; a call
// to Execute only queues. A strand takes all that is queued at once, so that under EVERY_PUSH one
// sync of the log serves many pushes; threads of their own wait for the disk. Ordering: operations
// on one partition run in the order of their calls; pulls, cuts and clip exchanges that must wait
// are parked and answered by the operation that lets them go. Destruction answers everything parked
// or queued with UNAVAILABLE. Thread-safe.
class ShardEngine final : public PartitionHost {
 public:
  struct Options {
    // Where rows, blocks and bookkeeping of jobs with durability EVERY_PUSH live (in a daemon, a
    // RocksDbStore in its data folder). Null: jobs with that durability are refused.
    std::shared_ptr<ParameterStore> store;
    // Folder for the partitions' logs, made when missing (in a daemon, "logs" in its data folder).
    // Needed with a store.
    std::string log_dir;
    // Where `log_dir` lives; must outlive the engine. Null: the machine's file system.
    LogFileSystem* log_file_system = nullptr;
    // Where checkpoints are written and read; must outlive the engine. Required.
    CheckpointStorage* checkpoint_storage = nullptr;
    // What a job's checkpoint_root must be. In a daemon with a coordinator, which marks the root:
    // kMarked, so that a folder of the server's own is found out before the job starts.
    RootCheck root_check = RootCheck::kWritable;
    // What to call the server in errors that others read.
    std::string server_name = "this server";
    // Of this process, as it registers with the coordinator; requests that name another one are
    // refused. 0: all are taken.
    uint64_t process_nonce = 0;
    // Bound on the tables' memory of all jobs together.
    uint64_t memory_budget_bytes = uint64_t{1} << 40;
    // Threads of the shared pool; at least 1.
    int threads = 2;
    // For tests: runs the partitions in place of the pool; must outlive the engine, and have run
    // all its tasks when jobs are closed (by a new generation, a drop, or the engine's end).
    Executor* executor = nullptr;
    // Threads that write checkpoint files, for all partitions together.
    int file_threads = 2;
    // For tests: runs their tasks in place of them, under the conditions of `executor`; null takes
    // that one.
    Executor* file_executor = nullptr;
    // Threads that wait for the disk on behalf of logs, for all partitions together; at least 1.
    // They take next to no processor time.
    int log_threads = 4;
    // Bound on the bytes of operations queued and parked on one partition; what comes on top is
    // answered RESOURCE_EXHAUSTED.
    size_t queue_bytes = 64 << 20;
    // Log bytes of a partition after which its image is written again (or twice as many as the
    // image has, if that is more), so that what a recovery replays stays bounded. Its files are
    // kept and written again.
    uint64_t log_bytes = uint64_t{512} << 20;
    // Called after an OpenTables that replayed logs, with what was replayed for the job so far;
    // null: nobody. Must be thread-safe.
    std::function<void(const v1::ReplayStatus&)> replayed;
    // Size of one file of a log.
    uint64_t log_segment_bytes = uint64_t{64} << 20;
    // Bytes of unused buffers that are kept for the next replies and sums.
    size_t pool_bytes = 256 << 20;
    // For tests of recovery: called at named points of the write path ("appended", "synced",
    // "applied", "image", "cut_taken", "cut_file", "cut_written"). When it returns true the engine
    // does nothing any more, neither writes nor answers, as if the process had died there. Must be
    // thread-safe.
    std::function<bool(absl::string_view)> crash_point;
  };

  // INVALID_ARGUMENT: an option is missing or out of range. UNAVAILABLE: the folder for logs cannot
  // be made.
  static absl::StatusOr<std::unique_ptr<ShardEngine>> Create(Options options);

  ~ShardEngine() override;

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request) override;
  absl::Status DropTables(const v1::DropTablesRequest& request) override;
  void Execute(ExchangeCall call) override;
  v1::GetServerStatsReply Stats() const override;

  // Jobs of which there is something here, open or in the store. Blocks.
  absl::StatusOr<std::vector<std::string>> HeldJobs() const;

  // What was replayed from logs since the engine was made, by job; without server_id.
  std::vector<v1::ReplayStatus> Replays() const;

  // Moves of partitions from and to this server. Out of use before the engine goes.
  PartitionMover& mover();

 private:
  class Impl;
  explicit ShardEngine(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SHARD_ENGINE_H_
