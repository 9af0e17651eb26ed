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
class TraceRecorder;

namespace v1 {
class HeartbeatReply;
class PartitionLoad;
class ReplayStatus;
}  // namespace v1

// The parameter server without a network: partitions of any number of jobs in memory, optimizers,
// clocks, ledgers, and, for jobs with durability EVERY_PUSH, their logs and images on disk.
//
// Execution: every partition has one serial executor (a strand) on a shared pool of threads;
// Execute only queues. A strand takes all that is queued at once, so that under EVERY_PUSH one sync
// of the log serves many pushes; other threads wait for the disk. Ordering: operations on one
// partition run in the order of their calls. Pulls, cuts and clip exchanges that must wait are
// parked; the operation that lets them go answers them. The destructor answers everything parked or
// queued with UNAVAILABLE. Thread-safe.
class ShardEngine final : public PartitionHost {
 public:
  struct Options {
    // Records what partitions of a traced job do; must outlive the engine. Null: nothing does.
    TraceRecorder* trace = nullptr;
    // Store for state of jobs with durability EVERY_PUSH, and for rows that are evicted from memory
    // (in a daemon, a RocksDbStore in its data folder). Null: jobs that need a store are refused.
    std::shared_ptr<ParameterStore> store;
    // Folder for logs, made when missing (in a daemon, "logs" in its data folder). Needed with a
    // store.
    std::string log_dir;
    // File system of `log_dir`; must outlive the engine. Null: the machine's.
    LogFileSystem* log_file_system = nullptr;
    // Storage that checkpoints are written to and read from; must outlive the engine. Required.
    CheckpointStorage* checkpoint_storage = nullptr;
    // Check of a job's checkpoint_root. A daemon with a coordinator, which marks the root, has
    // kMarked: a folder that only this server has is found out before the job starts.
    RootCheck root_check = RootCheck::kWritable;
    // Name of the server in errors that others read.
    std::string server_name = "this server";
    // Nonce with which this process registers with the coordinator; requests that name another one
    // are refused. 0: all are taken.
    uint64_t process_nonce = 0;
    // Bound on the memory of the tables of all jobs together.
    uint64_t memory_budget_bytes = uint64_t{1} << 40;
    // Threads of the shared pool; at least 1.
    int threads = 2;
    // Runs the partitions in place of the pool; for tests. Must outlive the engine, and have run
    // all its tasks when jobs are closed (by a new generation, a drop, or the engine's end).
    Executor* executor = nullptr;
    // Runs the tasks of the threads that write checkpoint files in their place; for tests, under
    // the conditions of `executor`. Null: `executor` runs them, if it is set.
    Executor* file_executor = nullptr;
    // Bound on bytes queued and parked on a partition; beyond, RESOURCE_EXHAUSTED is answered.
    size_t queue_bytes = 64 << 20;
    // A partition's image is written again when its log has grown by more than this and by more
    // than twice the bytes of its dense values; that bounds what a recovery replays. The log's
    // files are then reused.
    uint64_t log_bytes = uint64_t{512} << 20;
    // Called after an OpenTables that replayed logs, with the job's figures; thread-safe, or null.
    std::function<void(const v1::ReplayStatus&)> replayed;
    // Size of one file of a log.
    uint64_t log_segment_bytes = uint64_t{64} << 20;
    // Called, in tests of recovery, at named points ("appended", "synced", "applied", "image",
    // "evicted", "cut_taken", "cut_file", "cut_written"; of a move "move_deleted", "move_standing",
    // "move_marked", "move_copied", "move_adopted"). Once it returns true the engine neither writes
    // nor answers, as if the process had died there. Must be thread-safe.
    std::function<bool(absl::string_view)> crash_point;
  };

  // INVALID_ARGUMENT: an option is missing or out of range. UNAVAILABLE: no folder for logs.
  static absl::StatusOr<std::unique_ptr<ShardEngine>> Create(Options options);

  ~ShardEngine() override;

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request) override;
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(
      const v1::EndGenerationRequest& request) override;
  absl::Status DropTables(const v1::DropTablesRequest& request) override;
  void Execute(ExchangeCall call) override;
  v1::GetServerStatsReply Stats() const override;

  // Takes the coordinator's word on which slots have ended: whoever waits for them is refused.
  void TakeEndedSlots(const v1::HeartbeatReply& orders);

  // Returns the jobs that have anything here, open or in the store. Blocks.
  absl::StatusOr<std::vector<std::string>> HeldJobs() const;

  // Returns what was replayed from logs since the engine was made, by job; without server_id.
  std::vector<v1::ReplayStatus> Replays() const;

  // Returns the processor time that each open partition has taken.
  std::vector<v1::PartitionLoad> PartitionLoads() const;

  // Returns the mover of partitions from and to this server, for use while the engine lives.
  PartitionMover& mover();

 private:
  class Impl;
  explicit ShardEngine(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SHARD_ENGINE_H_
