#include "server/shard/partition/partition.h"

#include <algorithm>
#include <utility>

#include "common/base/catch_out_of_memory.h"
#include "common/base/status_macros.h"
#include "common/trace/trace_scope.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/calls/refusal.h"
#include "server/shard/partition/clock_completion.h"
#include "server/shard/partition/partition_recovery.h"

namespace muster {

uint64_t Partition::PredictedBytes(const JobTables& job, uint32_t partition) {
  // The partition's other objects: queues, cuts, its executor.
  constexpr uint64_t kOwn = 4096;
  // Heap bytes of an empty table, with its names.
  constexpr uint64_t kTableHeap = 512;
  const uint32_t blocks = job.layout().partition_blocks(partition).size();
  const uint32_t tables = job.tables().sparse.size();
  return kOwn + job.PredictedDenseBytes(partition) + blocks * sizeof(DenseTable::Block) +
         tables * (sizeof(TieredTable) + sizeof(SparseSum) + sizeof(PreviousRows) + kTableHeap) +
         Ledger::PredictedBytes({.mesh = job.mesh(),
                                 .dense_blocks = blocks,
                                 .sparse_tables = tables,
                                 .micro_batches = job.pushes_of_block()}) +
         Clocks::PredictedBytes(job.slots());
}

Partition::Partition(std::unique_ptr<PartitionTables> tables, uint64_t start,
                     std::unique_ptr<PartitionJournal> journal, Options options)
    : options_(std::move(options)),
      tables_(std::move(tables)),
      journal_(std::move(journal)),
      health_(*tables_,
              journal_ != nullptr ? PartitionHealth::ReadBack::kFromFiles
                                  : PartitionHealth::ReadBack::kNever,
              *options_.crash_point,
              [this] {
                waiting_.RefuseAll();
                cuts_.RefuseAll();
              }),
      sparse_memory_(*options_.budget),
      checks_(*tables_, *options_.pool, sparse_memory_, start),
      log_(journal_.get(), *tables_, health_),
      applier_(*tables_, *options_.pool, health_, start),
      admission_({.checks = checks_,
                  .log = log_,
                  .rows = applier_.rows(),
                  .health = health_,
                  .pool = *options_.pool,
                  .served = options_.served}),
      queue_(*tables_, log_, health_,
             {.strand = options_.strand,
              .syncs = options_.syncs,
              .crash_point = options_.crash_point,
              .synced = [this](uint64_t lsn) { LogSynced(lsn); }}),
      answers_(applier_.clocks()),
      reads_(Context(), applier_, options_.served),
      own_tasks_(std::make_shared<TaskQueue>()),
      cuts_(Context(), log_,
            std::make_unique<CutWriter>(*tables_,
                                        CutWriter::Options{.storage = options_.checkpoint_storage,
                                                           .crash_point = options_.crash_point},
                                        options_.strand != nullptr ? options_.strand : own_tasks_,
                                        options_.files != nullptr ? options_.files : own_tasks_),
            [this](AdmittedCall call) { waiting_.Serve(std::move(call)); }),
      waiting_(Context(), options_.parked_bytes, options_.ended_slots, reads_, cuts_),
      state_(
          {.job = *tables_->job, .checks = checks_, .applier = applier_, .cuts = cuts_.history()}),
      images_({.tables = *tables_,
               .journal = journal_.get(),
               .state = state_,
               .updater = applier_.updater(),
               .health = health_,
               .log_bytes = options_.log_bytes}) {
  UpdateStats();
}

Partition::~Partition() = default;

ServeContext Partition::Context() {
  return {.tables = *tables_,
          .pool = *options_.pool,
          .clocks = applier_.clocks(),
          .entries = applier_.entries(),
          .loss_scale = applier_.loss_scale(),
          .ledger = checks_.ledger(),
          .answers = answers_,
          .health = health_};
}

std::vector<uint64_t> Partition::closed_clocks() const {
  std::vector<uint64_t> closed;
  for (uint32_t slot = 0; slot < applier_.clocks().slots(); ++slot) {
    closed.push_back(closed_clocks(slot));
  }
  return closed;
}

// --- Operations.

TraceRecorder* Partition::Tracing() const {
  const bool traced = options_.trace != nullptr && options_.trace->on() &&
                      options_.trace->Records(tables_->job->job_id());
  return traced ? options_.trace : nullptr;
}

void Partition::Execute(std::vector<ExchangeCall> calls) {
  const TraceBinding bound(Tracing(), TraceTrack::kPartition,
                           static_cast<uint16_t>(tables_->partition));
  auto next = calls.begin();
  Guarded([&] { ExecuteFrom(next, calls.end()); });
  if (health_.crashed()) return;
  // There was not even memory to let them in.
  for (; next != calls.end(); ++next) Refuse(*next, health_.status());
}

void Partition::ExecuteFrom(std::vector<ExchangeCall>::iterator& next,
                            std::vector<ExchangeCall>::iterator end) {
  if (health_.crashed() || !queue_.AwaitRoom()) return;
  // A batch counts as its first call's step.
  const TraceScope trace(ActionKind::kBatch,
                         next == end ? TraceBound::kStepOfRecorder : next->request->clock(), 0);
  const uint64_t logged = log_.last_lsn();
  while (next != end) {
    AdmittedCall& call = queue_.Add(std::move(*next));
    ++next;
    admission_.Admit(call);
    queue_.CountLast();
  }
  if (!queue_.Sync(log_.last_lsn() - logged)) return;
  RunSynced();
  Tidy();
}

void Partition::LogSynced(uint64_t lsn) {
  if (!queue_.EndSync(lsn)) return;
  RunSynced();
  Tidy();
}

void Partition::RunSynced() {
  queue_.RunDurable([this](AdmittedCall& call) { Run(call); });
}

void Partition::Run(AdmittedCall& call) {
  // This also refuses what was admitted in a batch whose sync failed.
  if (!health_.ok()) return answers_.Refuse(call, health_.status());
  if (!call.status.ok()) return answers_.Refuse(call, call.status, call.retry_after_ms);
  if (!AdmissionChecks::IsMutation(*call.call.request)) return waiting_.Await(call);
  const v1::ExchangeRequest& request = *call.call.request;
  const bool pushes = request.has_dense_push() || request.has_sparse_push();
  const TraceScope trace(pushes ? ActionKind::kTakePush : ActionKind::kTakeClose, request.clock(),
                         call.call.payload.size());
  if (!call.already_applied) {
    if (absl::Status status = applier_.Apply(call); !status.ok()) {
      return answers_.Refuse(call, status);
    }
    if (health_.crashed()) return;
  }
  // An entry is answered once its clock is decided.
  if (request.has_enter()) {
    waiting_.Await(call);
  } else {
    answers_.AnswerOk(call);
  }
  waiting_.Release();
}

void Partition::RunTask(const std::function<void()>& task) {
  const TraceBinding bound(Tracing(), TraceTrack::kPartition,
                           static_cast<uint16_t>(tables_->partition));
  Guarded(task);
}

void Partition::Drain() {
  Guarded([this] {
    if (health_.crashed() || queue_.empty() || !queue_.SyncNow()) return;
    RunSynced();
  });
}

void Partition::Guarded(absl::FunctionRef<void()> work) {
  const absl::Status status = CatchOutOfMemory("what it was asked for", [&] {
    work();
    return absl::OkStatus();
  });
  if (status.ok()) return;
  torn_ = true;
  health_.Fail(status.message());
  RunSynced();
}

absl::StatusOr<Partition::Entry> Partition::EnterTask(uint32_t slot, uint64_t incarnation) {
  absl::StatusOr<Entry> entry = Entry();
  Guarded([&] { entry = LetTaskIn(slot, incarnation); });
  if (entry.ok() && !health_.ok()) return health_.status();
  return entry;
}

absl::StatusOr<Partition::Entry> Partition::LetTaskIn(uint32_t slot, uint64_t incarnation) {
  // Admitted calls of earlier incarnations count in the clocks that are returned.
  Drain();
  if (health_.crashed()) return absl::UnavailableError("crashed");
  if (!health_.ok()) return health_.status();
  MUSTER_RETURN_IF_ERROR(admission_.EnterTask(slot, incarnation));
  // Calls of the task's predecessor need not wait for their clock.
  waiting_.DropCancelled();
  const Ledger& ledger = checks_.ledger();
  const uint64_t closed = ledger.closed(slot);
  return Entry{.closed = closed_clocks(),
               .withdrawn = ledger.HasWithdrawn(slot, closed),
               .closed_withdrawn = closed > 0 && ledger.HasWithdrawn(slot, closed - 1)};
}

// --- The end of a generation.

absl::Status Partition::End(absl::Status status) {
  if (health_.crashed()) return absl::UnavailableError("crashed");
  if (ended_) return absl::OkStatus();
  if (!health_.ok()) return health_.status();
  health_.Close(std::move(status));
  ended_ = true;
  return absl::OkStatus();
}

absl::Status Partition::CompleteClocks(uint64_t clock) {
  const absl::Status status = CatchOutOfMemory("the last clock of a generation", [&] {
    return ClockCompletion({.tables = *tables_,
                            .checks = checks_,
                            .journal = journal_.get(),
                            .applier = applier_})
        .Run(clock, torn_);
  });
  if (status.ok() && health_.Pass("clock_completed")) return absl::UnavailableError("crashed");
  return status;
}

std::vector<uint64_t> Partition::lasting_clocks() const {
  std::vector<uint64_t> closed = closed_clocks();
  if (!tables_->job->clips_by_norm()) return closed;
  for (uint64_t& clocks : closed) clocks = std::min(clocks, applier_.clocks().completed());
  return closed;
}

Partition::Remains Partition::TakeApart(std::unique_ptr<Partition> partition) {
  const uint64_t lsn = partition->log_.last_lsn();
  Remains remains{.state = std::make_unique<const v1::PartitionState>(partition->state_.Save(lsn))};
  // The parts refer to them until they are gone.
  remains.tables = std::move(partition->tables_);
  remains.journal = std::move(partition->journal_);
  partition.reset();
  // Whoever gets the log does not know of a sync that was begun.
  if (remains.journal != nullptr && remains.journal->sync_started()) {
    remains.journal->FinishSync().IgnoreError();
  }
  return remains;
}

absl::Status Partition::GoOnFrom(const v1::PartitionState& earlier) {
  v1::PartitionState state = state_.Save(log_.last_lsn());
  state.set_adopted_term(earlier.adopted_term());
  if (earlier.has_loss_scale()) *state.mutable_loss_scale() = earlier.loss_scale();
  return state_.Restore(state);
}

// --- Between batches.

void Partition::Tidy() {
  if (health_.crashed()) return;
  cuts_.GiveUpIncomplete();
  own_tasks_->RunAll();
  if (health_.crashed()) return;
  waiting_.RefuseUnreachable();
  applier_.rows().TryAgain();
  if (images_.Due()) {
    // The state that is stored includes all that was let in.
    Drain();
    images_.WriteDue();
  }
  applier_.SettleSoon(options_.strand);
  UpdateStats();
}

void Partition::UpdateStats() {
  const uint64_t sparse_bytes =
      tables_->sparse_bytes() + applier_.updater().memory_bytes() + cuts_.memory_bytes();
  sparse_memory_.Set(sparse_bytes + queue_.RowBytes());
  stats_.dense_bytes = tables_->dense.PayloadBytes(0, tables_->dense.size());
  stats_.sparse_rows = tables_->sparse_rows();
  stats_.rows_on_disk = tables_->rows_on_disk();
  stats_.memory_bytes = tables_->dense.memory_bytes() + sparse_bytes;
  stats_.log_bytes = journal_ == nullptr ? 0 : journal_->log_bytes();
}

// --- Storage.

absl::Status Partition::StartJournal(PartitionJournal::Extent extent) {
  return images_.Write(extent);
}

absl::Status Partition::Recover(const v1::PartitionState& state,
                                absl::FunctionRef<absl::Status()> go_on) {
  return PartitionRecovery({.tables = *tables_,
                            .journal = *journal_,
                            .checks = checks_,
                            .applier = applier_,
                            .cuts = cuts_.history(),
                            .state = state_,
                            .replays = options_.replays,
                            .account = [this] { UpdateStats(); }})
      .Run(state, go_on);
}

}  // namespace muster
