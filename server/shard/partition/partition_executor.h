#ifndef MUSTER_SERVER_SHARD_PARTITION_PARTITION_EXECUTOR_H_
#define MUSTER_SERVER_SHARD_PARTITION_PARTITION_EXECUTOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/shard/calls/partition_host.h"
#include "server/shard/partition/partition.h"
#include "server/shard/resources/executor.h"

namespace muster {

// A partition with its strand: operations queue up from any thread, and one thread of the executor
// at a time executes all that is queued as one batch. Thread-safe.
class PartitionExecutor : public std::enable_shared_from_this<PartitionExecutor> {
 public:
  // Makes the partition, given what runs tasks between its batches; may fail.
  using MakePartition =
      absl::FunctionRef<absl::StatusOr<std::unique_ptr<Partition>>(std::shared_ptr<Executor>)>;

  // Makes a partition and its strand, which `executor` runs; `executor` must outlive them. At most
  // `queue_bytes` of payload may be queued; operations without a payload find twice that room, so
  // that a refused push does not drag the close behind it along.
  static absl::StatusOr<std::shared_ptr<PartitionExecutor>> Create(MakePartition make,
                                                                   Executor& executor,
                                                                   size_t queue_bytes);

  // Queues an operation; never blocks. Answers it with RESOURCE_EXHAUSTED, in this call, when the
  // queue is full.
  void Execute(ExchangeCall call);

  // Has the partition look again at what waits in it. Never blocks.
  void Wake() {
    AddTask([] {});
  }

  // See Partition::adopted_term.
  uint64_t adopted_term() const { return adopted_term_; }

  // Does Partition::EnterTask between batches; waits for the batch that runs, not for what is
  // queued behind it. Never to be called from an operation's `done`.
  absl::StatusOr<Partition::Entry> EnterTask(uint32_t slot, uint64_t incarnation);

  // Calls `visit`, which only reads, between batches, as EnterTask does, when nothing that was let
  // in waits for the disk any more. Returns the error that the partition is closed with, or what
  // `visit` returns. RESOURCE_EXHAUSTED: `visit` found no memory.
  absl::Status Visit(absl::FunctionRef<absl::Status(Partition&)> visit);

  // Executes what is queued, then answers all that is parked, and everything from now on, with
  // `status`, and destroys the partition. Blocks until that is done. To be called once.
  void Close(const absl::Status& status);

  // Does the same, except that the partition is returned instead of destroyed.
  std::unique_ptr<Partition> Release(const absl::Status& status);

  // Returns the figures as of the last batch.
  Partition::Stats stats() const;
  // Returns the processor time that batches of requests have taken since this object was made.
  // Reading the partition for a move, and what other threads write to files, is left out.
  absl::Duration busy() const;
  // Returns whether the partition had failed by then, so that all is refused until it is opened
  // anew.
  bool failed() const;
  // Returns how many clocks each slot has closed: all whose closes have been answered, and so safe
  // to start again from. Blocks while a batch runs, which may have answered some already; never to
  // be called from an operation's `done`.
  std::vector<uint64_t> closed_clocks() const;

 private:
  // Hands tasks to the strand; drops them when it is closed.
  class Strand;

  PartitionExecutor(std::unique_ptr<Partition> partition, Executor& executor, size_t queue_bytes);

  void AddTask(std::function<void()> task);
  // Executes what is queued, then makes room for other partitions.
  void RunBatch();
  void Schedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes what others may know of the partition after operations have run, which took so much
  // processor time, and ends the turn.
  void EndRun(absl::Duration busy = absl::ZeroDuration()) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends a use of the partition, and hands it on to tasks that enter, or to what is queued.
  void EndTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Free() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !scheduled_; }
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !scheduled_ && entering_ == 0; }

  Executor& executor_;
  const size_t queue_bytes_;
  // Used only by the thread that has set scheduled_, and by Close once all is idle.
  std::unique_ptr<Partition> partition_;
  const uint64_t adopted_term_;

  mutable absl::Mutex mutex_;
  std::vector<ExchangeCall> queue_ ABSL_GUARDED_BY(mutex_);
  // Tasks to run after the next batch.
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // True while the executor runs a batch, or will run one, or a task enters.
  bool scheduled_ ABSL_GUARDED_BY(mutex_) = false;
  // Tasks that wait to enter; they go before the next batch.
  int entering_ ABSL_GUARDED_BY(mutex_) = 0;
  // The error with which everything is answered once the partition is closed.
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  // True while a batch is executed; and the number of batches executed.
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t batches_ ABSL_GUARDED_BY(mutex_) = 0;
  Partition::Stats stats_ ABSL_GUARDED_BY(mutex_);
  absl::Duration busy_ ABSL_GUARDED_BY(mutex_);
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<uint64_t> closed_clocks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_PARTITION_EXECUTOR_H_
