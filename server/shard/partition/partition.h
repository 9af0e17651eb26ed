#ifndef MUSTER_SERVER_SHARD_PARTITION_PARTITION_H_
#define MUSTER_SERVER_SHARD_PARTITION_PARTITION_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "common/checkpoint/storage.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/calls/parked_calls.h"
#include "server/shard/calls/partition_host.h"
#include "server/shard/checkpoint/cut_writer.h"
#include "server/shard/partition/admission_checks.h"
#include "server/shard/partition/clocks.h"
#include "server/shard/partition/partition_journal.h"
#include "server/shard/resources/crash_point.h"
#include "server/shard/resources/executor.h"
#include "server/shard/resources/memory_budget.h"
#include "server/shard/resources/replay_meter.h"
#include "server/shard/resources/served_bytes.h"
#include "server/shard/resources/task_queue.h"
#include "server/shard/tables/partition_tables.h"
#include "server/shard/tables/table_updater.h"

namespace muster {

namespace v1 {
class CutState;
class PartitionState;
}  // namespace v1

// One partition: its tables, clocks and ledger, and what happens to an operation.
//
// Operations come in batches and pass three stages. *Admission* checks each in order and, under
// EVERY_PUSH, appends those that change something to the log. One *sync* makes all that was
// appended durable. *Running* applies or serves them in the same order and answers. Nothing is
// answered before what it rests on is on disk; nothing is applied that cannot be replayed.
//
// While several pushes are under way at a time, another thread carries the sync out: the next batch
// is admitted and logged, and the one before run, while the disk is busy.
//
// Under BSP pushes are summed, and the last slot's close (or the scale of global-norm clipping)
// runs the optimizer. Under SSP and ASP every push runs it. Pulls, cuts and norms wait, parked,
// until their clock is reached.
//
// After a failed sync it is unknown what the log holds: the partition refuses everything, and has
// failed, until it is made anew from its files. So it does when rows cannot be read back from the
// disk.
//
// When the disk is full, what would need more of it is refused before it is logged, with
// RESOURCE_EXHAUSTED and a time to try again after: pushes that the log has no room for, and pushes
// of rows that there is no memory for, since others cannot be evicted. Every batch tries again.
//
// When the process finds no memory for an operation while it is checked, or for an answer, it is
// refused with RESOURCE_EXHAUSTED, and nothing has changed. Later, half of it may be done: the
// partition has failed. With a journal it is made anew from its files; without one its values are
// lost (DATA_LOSS), and the job goes back to a checkpoint. No operation is answered OK that is not
// applied whole.
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
    // Log bytes after which the base is written again, or twice as many as the base has, if that is
    // more.
    uint64_t log_bytes = 0;
    // Hears of what is replayed; null: nobody does. Must outlive the partition.
    ReplayMeter* replays = nullptr;
    // Counts what is pushed and pulled; null: nobody does. Must outlive the partition.
    ServedBytes* served = nullptr;
    // For tasks between batches, one at a time, and for those that may block on files: how cuts are
    // written while the partition goes on. Both or none; none: within Execute.
    std::shared_ptr<Executor> strand;
    std::shared_ptr<Executor> files;
    // Carries syncs of the log out, with the strand; null: all are waited for.
    std::shared_ptr<Executor> syncs;
  };

  // Figures for reports, as of the last batch.
  struct Stats {
    uint64_t dense_bytes = 0;
    uint64_t sparse_rows = 0;
    uint64_t rows_on_disk = 0;
    uint64_t memory_bytes = 0;
    uint64_t log_bytes = 0;
  };

  // Bytes that a partition takes before it has rows: the dense table, and for each slot and each
  // sparse table what is kept of it.
  static uint64_t PredictedBytes(const JobTables& job, uint32_t partition);

  // All slots have closed `start` clocks; the tables are as they were then. Without a journal
  // nothing is logged.
  Partition(std::unique_ptr<PartitionTables> tables, uint64_t start,
            std::unique_ptr<PartitionJournal> journal, Options options);
  ~Partition();

  // Makes what the partition starts from durable: a base with all its values (after a restore) or
  // its state alone. REQUIRES: a journal.
  absl::Status StartJournal(PartitionJournal::Extent extent);

  // Goes back to a stored state and applies the log's mutations since, answering nobody. REQUIRES:
  // a journal; nothing has been executed. DATA_LOSS: state, base and log do not fit together.
  // `go_on` is asked now and then, and what it refuses with is returned.
  absl::Status Recover(const v1::PartitionState& state, absl::FunctionRef<absl::Status()> go_on);

  // Lets a slot's task in: from now on earlier incarnations are refused, also after a recovery.
  // Returns the clocks that each slot has closed. ABORTED: a later incarnation holds the slot.
  // UNAVAILABLE: it cannot be logged. REQUIRES: the slot exists.
  absl::StatusOr<std::vector<uint64_t>> EnterTask(uint32_t slot, uint64_t incarnation);

  // Executes operations in order and answers them, now, once their records are on disk, or once
  // their clock is reached.
  void Execute(std::vector<ExchangeCall> calls);
  // Runs what this partition has given its strand.
  void RunTask(const std::function<void()>& task);

  // Waits for the disk and runs all that was let in before, for those who look at the partition or
  // end it.
  void Drain();

  // Answers all that is parked, and everything from now on, with `status`.
  void Close(absl::Status status);
  // Whether everything is refused from now on, by Close or after an error.
  bool failed() const { return !closed_.ok(); }

  // The move by which the partition came here; 0: none. Callers serve it only under later terms: as
  // long as the coordinator has not noted the move, no shard map has one. Const once recovered.
  uint64_t adopted_term() const { return adopted_term_; }

  // Clocks that each slot has closed.
  std::vector<uint64_t> closed_clocks() const;
  uint64_t closed_clocks(uint32_t slot) const { return clocks_.slot(slot).closed; }
  const PartitionTables& tables() const { return *tables_; }
  // Null: nothing is logged.
  PartitionJournal* journal() { return journal_.get(); }
  const Stats& stats() const { return stats_; }

 private:
  struct CutRecord {
    uint64_t clock = 0;
    std::string path;
    uint64_t bytes = 0;
    uint64_t checksum = 0;
  };

  const JobTables& job() const { return *tables_->job; }
  // Null: it was not taken, or is not known any more.
  const CutRecord* FindCut(uint64_t clock) const;

  // Does `work`; when memory runs out in it, the partition has failed, and all that was let in is
  // refused.
  void Guarded(absl::FunctionRef<void()> work);
  // Half of something may be done: closes the partition until it is made anew, or given up. Needs
  // no memory.
  void Fail(absl::string_view why);
  absl::Status FailedSince(absl::string_view why) const;
  absl::StatusOr<std::vector<uint64_t>> LetTaskIn(uint32_t slot, uint64_t incarnation);
  // What everything is answered with once the log cannot be written any more.
  absl::Status LogFailed(const absl::Status& status) const;
  // Makes a record of the partition's own durable.
  absl::Status LogRecord(const v1::ExchangeRequest& record, const Payload& payload);
  // Makes it durable that a slot's earlier incarnations are fenced.
  absl::Status LogIncarnation(uint32_t slot, uint64_t incarnation);
  // Execute, from `next` on, which is the first call that was not let in yet.
  void ExecuteFrom(std::vector<ExchangeCall>::iterator& next,
                   std::vector<ExchangeCall>::iterator end);
  // Checks an operation, of which only `call` is set, logs it if need be, and enters it in the
  // ledger.
  void Admit(AdmittedCall& admitted);
  // Checks it alone. Returns whether the log will hold a copy of its payload anyway.
  bool Check(AdmittedCall& admitted);
  // Whether the next sync is worth a thread of its own, after a batch with so many records.
  bool SyncsBeside(uint64_t records);
  void StartSync();
  // Waits for the sync that was started, or for all that was appended. False: the engine has
  // crashed.
  bool FinishSync();
  bool SyncNow();
  // The sync up to that record, which StartSync gave away, is over.
  void LogSynced(uint64_t lsn);
  // Runs those admitted whose records are durable, and does what is to be done between batches.
  void RunSynced();
  void Tidy();
  // Makes what is left of the last clock's steps, when other partitions have had their turn.
  void SettleSoon();
  // Bytes that rows of admitted pushes may take.
  uint64_t AdmittedRowBytes() const;
  void Run(AdmittedCall& call);
  // An error is of the disk that rows are on.
  absl::Status Apply(const AdmittedCall& call);
  // Ends the clocks that all slots have closed, unless they wait for their scale.
  absl::Status CompleteClocks(uint64_t lsn);
  // Ends clock completed() under BSP.
  absl::Status EndClock(double scale, uint64_t lsn);
  const std::string& ClipNorms();

  void Park(uint64_t clocks, AdmittedCall& call, ParkedCalls& parked);
  void ReleaseParked();
  // Answers the call, or lets it wait, also when memory runs out.
  void Serve(AdmittedCall call);
  void ServeKnown(AdmittedCall& call);
  // To make an answer in, where it is sent from if there is room.
  std::shared_ptr<std::byte> AnswerMemory(const ExchangeCall& call, size_t bytes) const;
  // Values as they are sent. RESOURCE_EXHAUSTED: there is no memory to bring them into that type.
  absl::StatusOr<Payload> Narrow(const ExchangeCall& call, const Payload& payload,
                                 DType type) const;
  void ServeDensePull(AdmittedCall& call);
  void ServeSparsePull(AdmittedCall& call);
  void ServeCut(AdmittedCall& call);
  absl::Status CheckCutCanBeTaken(const v1::ExchangeRequest& request) const;
  // Whether the view still waits for what some slots' half-precision pushes have to carry over, or
  // for their loss scales.
  bool LacksSlotState() const;
  // Lets a view go that waits for what will not come: slots that had been answered before the
  // server was restarted have gone on.
  void GiveUpIncompleteCut();
  // Lets the view go, if there is one, and those who wait for it to be whole. REQUIRES: it is not
  // being written.
  void DropIncompleteCut();
  void StartCut(absl::optional<uint64_t> base);
  void RefuseCut(AdmittedCall& call, const absl::Status& status) const;
  void AnswerCut(AdmittedCall& call, const CutRecord& cut) const;
  // There is no view of that clock any more.
  void AnswerGone(AdmittedCall& call) const;
  void CutWritten(uint64_t clock, const absl::StatusOr<PartitionFileInfo>& file);
  void KeepCut(CutRecord cut);
  // Makes it durable that a cut has its file.
  absl::Status LogCut(const CutRecord& cut);
  absl::Status ReplayCut(const ExchangeCall& call);
  static void StoreCut(const CutRecord& cut, v1::CutState& state);
  static CutRecord LoadCut(const v1::CutState& state);
  void ServeClipNorms(AdmittedCall& call);
  absl::StatusOr<DenseTable::Version> VersionFor(const v1::ExchangeRequest& request) const;
  // The error for somebody who asks for what is not known any more: ABORTED for a task from before
  // the slot's present one, otherwise FAILED_PRECONDITION.
  absl::Status GoneBy(const v1::ExchangeRequest& request, absl::string_view message) const;

  // Answers a call that is not answered, or waiting elsewhere, yet; leaves others alone.
  void Answer(AdmittedCall& call, v1::ExchangeReply reply, Payload payload) const;
  void AnswerOk(AdmittedCall& call, Payload payload = {}) const;
  // `retry_after_ms` 0: trying again later does not help by itself. Needs no memory.
  void Refuse(AdmittedCall& call, const absl::Status& status, uint32_t retry_after_ms = 0) const;

  v1::PartitionState State() const;
  absl::Status WriteBase(PartitionJournal::Extent extent);
  // Forgets log that a base can stand for, once it is long.
  void WriteBaseIfLogIsLong();
  // Evicts and drops rows as far as they must go.
  absl::Status TrimRows();
  // Takes the result of writing rows: a full disk is tried again, all else closes the partition.
  void NoteStored(const absl::Status& status);
  // Why a push of rows cannot be let in now.
  absl::Status CheckRoomForRows() const;
  // Applies a logged mutation again.
  absl::Status ReplayRecord(uint64_t lsn, ExchangeCall call);
  void UpdateStats();
  void Count(std::atomic<uint64_t> ServedBytes::*counter, uint64_t bytes);

  const Options options_;
  const std::unique_ptr<PartitionTables> tables_;
  const std::unique_ptr<PartitionJournal> journal_;
  // What it fails with when there is no memory left to say why.
  const absl::Status out_of_memory_;
  MemoryShare sparse_memory_;
  AdmissionChecks admission_;
  TableUpdater updater_;
  Clocks clocks_;
  // f64 squared norms of clock completed(), once they were asked for, and of the one before, for a
  // repeat.
  std::string norms_;
  std::string last_norms_;
  uint64_t adopted_term_ = 0;
  // The last two cuts, the later first. A slot that is taken over in mid-close is one cut behind
  // where a cut follows at the next clock, and asks for the earlier one again.
  std::deque<CutRecord> cuts_;
  // The last cut whose file could not be written, and why.
  uint64_t failed_cut_clock_ = 0;
  std::string cut_failure_;
  // Used where the options bring no executors.
  const std::shared_ptr<TaskQueue> own_tasks_;
  const std::unique_ptr<CutWriter> cut_writer_;
  // Cuts that wait for the state of other slots; for the file being written; and those of another
  // clock, for its end.
  std::vector<AdmittedCall> take_calls_;
  std::vector<AdmittedCall> cut_calls_;
  std::vector<AdmittedCall> deferred_cuts_;
  // Pulls and cuts, by completed clocks; norms, by clocks closed by all.
  ParkedCalls waiting_for_completion_;
  ParkedCalls waiting_for_closes_;
  // Why nothing more is executed.
  absl::Status closed_;
  // Admitted and not run, in order, and what they take of memory. Never any without a sync that
  // was started, but within the methods.
  std::deque<AdmittedCall> admitted_;
  size_t admitted_bytes_ = 0;
  // Whether operations came while the last sync ran.
  bool overlapped_ = false;
  // Not OK while rows cannot be written for want of space.
  absl::Status disk_full_;
  // Whether the strand has been told to settle.
  bool settles_soon_ = false;
  // Clocks after which rows were last dropped.
  uint64_t rows_dropped_at_ = 0;
  // Batches until a base is tried again, and how many will be let go by after the next failure.
  int base_waits_ = 0;
  int base_next_wait_ = 1;
  Stats stats_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_PARTITION_H_
