#ifndef MUSTER_SERVER_SHARD_PARTITION_PARTITION_H_
#define MUSTER_SERVER_SHARD_PARTITION_PARTITION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/checkpoint/storage.h"
#include "common/trace/trace_recorder.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/calls/partition_host.h"
#include "server/shard/partition/admission/admission.h"
#include "server/shard/partition/admission/admission_checks.h"
#include "server/shard/partition/answers/call_answers.h"
#include "server/shard/partition/answers/partition_cuts.h"
#include "server/shard/partition/answers/read_server.h"
#include "server/shard/partition/answers/serve_context.h"
#include "server/shard/partition/answers/waiting_calls.h"
#include "server/shard/partition/apply/mutation_applier.h"
#include "server/shard/partition/image_writer.h"
#include "server/shard/partition/journal/journal_writer.h"
#include "server/shard/partition/journal/partition_health.h"
#include "server/shard/partition/journal/partition_journal.h"
#include "server/shard/partition/journal/sync_queue.h"
#include "server/shard/partition/stored_state.h"
#include "server/shard/resources/crash_point.h"
#include "server/shard/resources/executor.h"
#include "server/shard/resources/memory_budget.h"
#include "server/shard/resources/replay_meter.h"
#include "server/shard/resources/served_bytes.h"
#include "server/shard/resources/task_queue.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// One partition: the pipeline that its operations pass, and the parts beside it.
//
// Operations come in batches. *Admission* checks each in order and, under EVERY_PUSH, appends those
// that change something to the log. The *sync queue* holds them until a sync has made all that was
// appended durable. The *applier* changes tables and clocks, in the same order; pulls, cuts and
// norms *wait* until their clock is reached and are then served. Nothing is answered before what it
// rests on is on disk; nothing is applied that cannot be replayed.
//
// A partition that has failed refuses everything until it is made anew: with a journal from its
// files; without one its values are lost (DATA_LOSS), and the job goes back to a checkpoint. It
// fails when a sync fails, since it is unknown then what the log holds; when rows cannot be read
// back from the disk; and when memory runs out while an operation may be half done. While an
// operation is checked or an answer made, want of memory refuses that operation alone. No operation
// is answered OK that is not applied whole.
//
// When the disk is full, what would need more of it is refused before it is logged, with
// RESOURCE_EXHAUSTED and a time to try again after: pushes that the log has no room for, and pushes
// of rows that there is no memory for, since others cannot be evicted. Every batch tries again.
//
// One thread at a time calls the methods. Blocks on the disk.
class Partition {
 public:
  struct Options {
    // Shared with the other partitions; must outlive this one.
    std::shared_ptr<BufferPool> pool;
    MemoryBudget* budget = nullptr;
    CheckpointStorage* checkpoint_storage = nullptr;
    CrashPoint* crash_point = nullptr;
    // Bound on the bytes of parked operations.
    size_t parked_bytes = 0;
    // Log bytes after which the image is written again, or twice as many as its blocks have, if
    // that is more.
    uint64_t log_bytes = 0;
    // Counts what is replayed; null: nobody does. Must outlive the partition.
    ReplayMeter* replays = nullptr;
    // Counts what is pushed and pulled; null: nobody does. Must outlive the partition.
    ServedBytes* served = nullptr;
    // Knows which slots close no more clocks; null: all do. Must outlive the partition.
    const EndedSlots* ended_slots = nullptr;
    // Records what partitions of a traced job do; null: nothing does. Must outlive the partition.
    TraceRecorder* trace = nullptr;
    // Run tasks between batches, one at a time, and tasks that may block on files, so that cuts are
    // written while the partition goes on. Both or none; none: within Execute.
    std::shared_ptr<Executor> strand;
    std::shared_ptr<Executor> files;
    // Carries syncs of the log out, with the strand; null: the partition waits for all of them.
    std::shared_ptr<Executor> syncs;
  };

  // The partition's figures for reports, as of the last batch.
  struct Stats {
    uint64_t dense_bytes = 0;
    uint64_t sparse_rows = 0;
    uint64_t rows_on_disk = 0;
    uint64_t memory_bytes = 0;
    uint64_t log_bytes = 0;
  };

  // The partition's answer to a task that is let in.
  struct Entry {
    // The clocks that each slot has closed.
    std::vector<uint64_t> closed;
    // True if gradients of the task's slot overflowed (Ledger::HasWithdrawn), at its open clock and
    // at the last one that it has closed.
    bool withdrawn = false;
    bool closed_withdrawn = false;
  };

  // Returns the bytes that a partition takes before it has rows: the dense table, and what is kept
  // of each slot and each sparse table.
  static uint64_t PredictedBytes(const JobTables& job, uint32_t partition);

  // All slots have closed `start` clocks; the tables are as they were then. Without a journal
  // nothing is logged.
  Partition(std::unique_ptr<PartitionTables> tables, uint64_t start,
            std::unique_ptr<PartitionJournal> journal, Options options);
  ~Partition();

  // Makes what the partition starts from durable: an image with all its values (after a restore),
  // or its state alone. REQUIRES: a journal.
  absl::Status StartJournal(PartitionJournal::Extent extent);

  // Goes back to a stored state and applies the log's mutations since, answering nobody. REQUIRES:
  // a journal; nothing has been executed. DATA_LOSS: state, image and log do not fit together.
  // `go_on` is asked now and then, and what it refuses with is returned.
  absl::Status Recover(const v1::PartitionState& state, absl::FunctionRef<absl::Status()> go_on);

  // Lets a slot's task in: from now on earlier incarnations are refused, also after a recovery.
  // ABORTED: a later incarnation holds the slot. UNAVAILABLE: it cannot be logged. REQUIRES: the
  // slot exists.
  absl::StatusOr<Entry> EnterTask(uint32_t slot, uint64_t incarnation);

  // Ends the partition's generation: answers all that is parked, and everything from now on, with
  // `status`. The values stay, for a later generation. Idempotent. Not OK: the partition has failed
  // with that error before. REQUIRES: nothing that was let in waits for the disk.
  absl::Status End(absl::Status status);
  // Returns whether the values are whole since End.
  bool ended() const { return ended_ && !torn_; }
  // Completes clocks up to `clock`; see ClockCompletion. REQUIRES: ended().
  absl::Status CompleteClocks(uint64_t clock);
  // Returns how many clocks each slot has closed whose end this partition can have alone: not more
  // than are completed where the update of a clock waits for its scale.
  std::vector<uint64_t> lasting_clocks() const;

  // What is left of a partition for a later generation of its job.
  struct Remains {
    std::unique_ptr<PartitionTables> tables;
    // Null: nothing is logged.
    std::unique_ptr<PartitionJournal> journal;
    std::unique_ptr<const v1::PartitionState> state;
  };
  // Ends a partition's other parts. REQUIRES: ended().
  static Remains TakeApart(std::unique_ptr<Partition> partition);
  // Takes over what an earlier generation's state tells beside clocks and slots. REQUIRES: nothing
  // has been executed.
  absl::Status GoOnFrom(const v1::PartitionState& earlier);

  // Executes operations in order and answers them, now, once their records are on disk, or once
  // their clock is reached.
  void Execute(std::vector<ExchangeCall> calls);
  // Runs what this partition has given its strand.
  void RunTask(const std::function<void()>& task);

  // Waits for the disk and runs all that was let in before. For those who look at the partition or
  // end it.
  void Drain();

  // Answers all that is parked, and everything from now on, with `status`.
  void Close(absl::Status status) { health_.Close(std::move(status)); }
  // Returns whether everything is refused from now on, by Close or after an error.
  bool failed() const { return !health_.ok(); }

  // Returns the term of the move by which the partition came here; 0: none. Callers serve it only
  // under later terms: as long as the coordinator has not noted the move, no shard map has one.
  // Const once recovered.
  uint64_t adopted_term() const { return state_.adopted_term(); }

  // Returns the clocks that each slot has closed.
  std::vector<uint64_t> closed_clocks() const;
  uint64_t closed_clocks(uint32_t slot) const { return applier_.clocks().slot(slot).closed; }
  const PartitionTables& tables() const { return *tables_; }
  // Returns null where nothing is logged.
  PartitionJournal* journal() { return journal_.get(); }
  const Stats& stats() const { return stats_; }

 private:
  ServeContext Context();
  // Returns what records this partition's work now; null: nothing does.
  TraceRecorder* Tracing() const;

  // Does `work`; when memory runs out in it, fails the partition and refuses all that was let in.
  void Guarded(absl::FunctionRef<void()> work);
  absl::StatusOr<Entry> LetTaskIn(uint32_t slot, uint64_t incarnation);
  // Does Execute from `next` on, which is the first call that was not let in yet.
  void ExecuteFrom(std::vector<ExchangeCall>::iterator& next,
                   std::vector<ExchangeCall>::iterator end);
  // Goes on after a sync, up to that record, which another thread has carried out.
  void LogSynced(uint64_t lsn);
  // Runs those calls whose records are durable.
  void RunSynced();
  // Applies a call and answers it, or lets it wait for its clock.
  void Run(AdmittedCall& call);
  // Does what is to be done between batches.
  void Tidy();
  void UpdateStats();

  const Options options_;
  // Null once taken apart.
  std::unique_ptr<PartitionTables> tables_;
  std::unique_ptr<PartitionJournal> journal_;
  PartitionHealth health_;
  MemoryShare sparse_memory_;
  // The pipeline, in order.
  AdmissionChecks checks_;
  JournalWriter log_;
  MutationApplier applier_;
  Admission admission_;
  SyncQueue queue_;
  const CallAnswers answers_;
  ReadServer reads_;
  // Runs tasks where the options bring no executors.
  const std::shared_ptr<TaskQueue> own_tasks_;
  PartitionCuts cuts_;
  WaitingCalls waiting_;
  // The parts that store the partition.
  StoredState state_;
  ImageWriter images_;
  // True once the generation has ended, and if half of an operation may have been done since.
  bool ended_ = false;
  bool torn_ = false;
  Stats stats_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_PARTITION_H_
