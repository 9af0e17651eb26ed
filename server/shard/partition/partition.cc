#include "server/shard/partition/partition.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/gathered_payload.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/calls/refusal.h"
#include "server/shard/storage/log_sync.h"

namespace muster {
namespace {

// After all records of the log.
constexpr uint64_t kEveryLsn = std::numeric_limits<uint64_t>::max();

using Operation = v1::ExchangeRequest::OperationCase;

// What a caller that was refused should wait, for want of disk space, which somebody has to make,
// or of memory.
constexpr uint32_t kDiskFullRetryMs = 1000;
constexpr uint32_t kNoMemoryRetryMs = 1000;
// Of operations that wait for the disk while more are admitted: several syncs' worth at any disk's
// speed.
constexpr size_t kMostUnsyncedBytes = size_t{32} << 20;

}  // namespace

uint64_t Partition::PredictedBytes(const JobTables& job, uint32_t partition) {
  // The partition's other objects: queues, cuts, its executor.
  constexpr uint64_t kOwn = 4096;
  // What an empty table has on the heap, its names among it.
  constexpr uint64_t kTableHeap = 512;
  const uint32_t blocks = job.layout().partition_blocks(partition).size();
  const uint32_t tables = job.tables().sparse.size();
  return kOwn + job.PredictedDenseBytes(partition) + blocks * sizeof(DenseTable::Block) +
         tables * (sizeof(TieredTable) + sizeof(SparseSum) + sizeof(PreviousRows) + kTableHeap) +
         Ledger::PredictedBytes(job.slots(), blocks, tables) + Clocks::PredictedBytes(job.slots());
}

Partition::Partition(std::unique_ptr<PartitionTables> tables, uint64_t start,
                     std::unique_ptr<PartitionJournal> journal, Options options)
    : options_(std::move(options)),
      tables_(std::move(tables)),
      journal_(std::move(journal)),
      out_of_memory_(FailedSince("the process has no memory left")),
      sparse_memory_(*options_.budget),
      admission_(*tables_, *options_.pool, sparse_memory_, start),
      updater_(*tables_, *options_.pool),
      clocks_(job().slots(), start),
      own_tasks_(std::make_shared<TaskQueue>()),
      cut_writer_(
          std::make_unique<CutWriter>(*tables_,
                                      CutWriter::Options{.storage = options_.checkpoint_storage,
                                                         .crash_point = options_.crash_point},
                                      options_.strand != nullptr ? options_.strand : own_tasks_,
                                      options_.files != nullptr ? options_.files : own_tasks_)) {
  UpdateStats();
}

Partition::~Partition() = default;

std::vector<uint64_t> Partition::closed_clocks() const {
  std::vector<uint64_t> closed;
  for (uint32_t slot = 0; slot < clocks_.slots(); ++slot) closed.push_back(closed_clocks(slot));
  return closed;
}

// --- Memory.

void Partition::Guarded(absl::FunctionRef<void()> work) {
  const absl::Status status = CatchOutOfMemory("what it was asked for", [&] {
    work();
    return absl::OkStatus();
  });
  if (status.ok()) return;
  Fail(status.message());
  RunSynced();
  // Those that were on their way when memory ran out are counted or not.
  admitted_bytes_ = 0;
}

void Partition::Fail(absl::string_view why) {
  absl::Status failed = out_of_memory_;
  CatchOutOfMemory("an error", [&] {
    failed = FailedSince(why);
    return absl::OkStatus();
  }).IgnoreError();
  Close(std::move(failed));
}

absl::Status Partition::FailedSince(absl::string_view why) const {
  const std::string failed = absl::StrCat("partition ", tables_->partition, " of job ",
                                          job().job_id(), " has failed, since ", why);
  if (journal_ != nullptr) {
    return absl::UnavailableError(absl::StrCat(
        failed, "; it is read back from its files once the job's tables are opened again"));
  }
  return WithLostState(
      absl::DataLossError(absl::StrCat(
          failed, "; its values are lost, go back to a checkpoint under a new generation")),
      LostState::kServerState);
}

void Partition::RunTask(const std::function<void()>& task) { Guarded(task); }

// --- Admission.

absl::Status Partition::LogFailed(const absl::Status& status) const {
  return absl::UnavailableError(absl::StrCat(
      "the log of partition ", tables_->partition, " of job ", job().job_id(),
      " failed, and is read back once the job's tables are opened again: ", status.message()));
}

absl::StatusOr<std::vector<uint64_t>> Partition::EnterTask(uint32_t slot, uint64_t incarnation) {
  absl::StatusOr<std::vector<uint64_t>> closed = std::vector<uint64_t>();
  Guarded([&] { closed = LetTaskIn(slot, incarnation); });
  if (closed.ok() && !closed_.ok()) return closed_;
  return closed;
}

absl::StatusOr<std::vector<uint64_t>> Partition::LetTaskIn(uint32_t slot, uint64_t incarnation) {
  // What was let in of earlier incarnations counts in the clocks that are returned.
  Drain();
  if (options_.crash_point->crashed()) return absl::UnavailableError("crashed");
  if (!closed_.ok()) return closed_;
  const Ledger& ledger = admission_.ledger();
  MUSTER_RETURN_IF_ERROR(ledger.CheckIncarnation(slot, incarnation));
  // On disk first: the clocks that the task starts from must stay what they are.
  if (journal_ != nullptr && incarnation > ledger.incarnation(slot)) {
    MUSTER_RETURN_IF_ERROR(LogIncarnation(slot, incarnation));
  }
  MUSTER_RETURN_IF_ERROR(admission_.EnterIncarnation(slot, incarnation));
  // What the task's predecessor waited for need not wait for its clock.
  waiting_for_completion_.DropCancelled();
  waiting_for_closes_.DropCancelled();
  return closed_clocks();
}

bool Partition::Check(AdmittedCall& admitted) {
  ExchangeCall& call = admitted.call;
  // What is checked and applied has to be what the log's checksum is of and what it holds. Of dense
  // gradients no check looks at the values, so that a copy which the log makes anyway will do.
  const bool shared =
      journal_ != nullptr && call.payload_memory != ExchangeCall::PayloadMemory::kPrivate;
  const bool log_copies =
      shared && call.request->has_dense_push() && journal_->HoldsCopyOf(call.payload.size());
  if (shared) {
    if (!log_copies) call.payload = GatherPayload(call.payload, *options_.pool);
    call.payload_memory = ExchangeCall::PayloadMemory::kPrivate;
  }
  admission_.Check(admitted);
  return log_copies;
}

void Partition::Admit(AdmittedCall& admitted) {
  if (!closed_.ok()) {
    admitted.status = closed_;
    return;
  }
  // So far nothing has changed, and want of memory is the operation's own.
  const absl::StatusOr<bool> checked =
      CatchOutOfMemory("the operation", [&]() -> absl::StatusOr<bool> { return Check(admitted); });
  if (!checked.ok()) {
    admitted.status = checked.status();
    admitted.retry_after_ms = kNoMemoryRetryMs;
    return;
  }
  const bool log_copies = *checked;
  const v1::ExchangeRequest& request = *admitted.call.request;
  if (!admitted.status.ok() || admitted.already_applied) return;
  if (request.has_sparse_push()) {
    admitted.status = CheckRoomForRows();
    admitted.retry_after_ms = kDiskFullRetryMs;
    if (!admitted.status.ok()) return;
  }
  if (AdmissionChecks::IsMutation(request)) {
    Count(&ServedBytes::pushed, admitted.call.payload.size());
    if (journal_ != nullptr) {
      Payload copy;
      absl::StatusOr<uint64_t> lsn =
          journal_->Append(request, admitted.call.payload, log_copies ? &copy : nullptr);
      if (!lsn.ok()) {
        admitted.status = lsn.status();
        if (absl::IsResourceExhausted(lsn.status())) admitted.retry_after_ms = kDiskFullRetryMs;
        // A log that refuses all further use: what waits for a restart must not look like a mistake
        // of the caller.
        if (absl::IsFailedPrecondition(lsn.status())) {
          Close(LogFailed(lsn.status()));
          admitted.status = closed_;
        }
        return;
      }
      admitted.lsn = *lsn;
      if (log_copies) admitted.call.payload = std::move(copy);
    }
    admission_.Enter(admitted);
  }
  // The chunk holds what it needs of it.
  if (admitted.chunk.memory != nullptr) admitted.call.payload = Payload();
}

void Partition::Execute(std::vector<ExchangeCall> calls) {
  auto next = calls.begin();
  Guarded([&] { ExecuteFrom(next, calls.end()); });
  if (options_.crash_point->crashed()) return;
  // There was not even memory to let them in.
  for (; next != calls.end(); ++next) muster::Refuse(*next, closed_);
}

void Partition::ExecuteFrom(std::vector<ExchangeCall>::iterator& next,
                            std::vector<ExchangeCall>::iterator end) {
  if (options_.crash_point->crashed()) return;
  // A disk that is slower than what comes makes it wait here, and then in the queue.
  if (admitted_bytes_ > kMostUnsyncedBytes && !FinishSync()) return;
  const uint64_t logged = journal_ == nullptr ? 0 : journal_->last_lsn();
  while (next != end) {
    AdmittedCall& admitted = admitted_.emplace_back();
    admitted.call = std::move(*next++);
    Admit(admitted);
    admitted_bytes_ += admitted.bytes();
  }
  if (journal_ != nullptr) {
    const uint64_t records = journal_->last_lsn() - logged;
    if (records > 0 && options_.crash_point->Pass("appended")) return;
    if (!journal_->sync_started()) {
      if (SyncsBeside(records)) {
        StartSync();
      } else if (!SyncNow()) {
        return;
      }
    }
  }
  RunSynced();
  Tidy();
}

bool Partition::SyncsBeside(uint64_t records) {
  if (options_.syncs == nullptr || options_.strand == nullptr) return false;
  // One caller that waits for each answer is served sooner without the detour.
  return std::exchange(overlapped_, false) || records > 1;
}

void Partition::StartSync() {
  if (!closed_.ok()) return;
  std::shared_ptr<LogSync> sync = journal_->StartSync();
  if (sync == nullptr) {
    // The log may have failed since, at the end of a segment: what rests on it is to be told.
    const bool waiting = journal_->synced_lsn() < journal_->last_lsn();
    if (waiting && !journal_->sync_started()) FinishSync();
    return;
  }
  // Whoever needs the sync before its turn carries it out himself. The strand forgets what it is
  // given once the partition is closed.
  options_.syncs->Add(
      [this, sync = std::move(sync), strand = options_.strand, crash_point = options_.crash_point] {
        if (crash_point->crashed()) return;
        sync->Run().IgnoreError();  // FinishSync returns it again.
        strand->Add([this, lsn = sync->lsn()] { LogSynced(lsn); });
      });
}

bool Partition::FinishSync() {
  if (absl::Status status = journal_->FinishSync(); !status.ok()) Close(LogFailed(status));
  return !options_.crash_point->Pass("synced");
}

bool Partition::SyncNow() {
  if (!closed_.ok() || journal_->synced_lsn() == journal_->last_lsn()) return true;
  if (absl::Status status = journal_->Sync(); !status.ok()) Close(LogFailed(status));
  return !options_.crash_point->Pass("synced");
}

void Partition::LogSynced(uint64_t lsn) {
  if (options_.crash_point->crashed()) return;
  // Unless somebody could not wait, and has finished it.
  if (journal_->synced_lsn() < lsn && !FinishSync()) return;
  overlapped_ = journal_->synced_lsn() < journal_->last_lsn();
  // The disk goes on while the tables take what it has.
  StartSync();
  RunSynced();
  Tidy();
}

void Partition::Drain() {
  Guarded([this] {
    if (options_.crash_point->crashed() || admitted_.empty()) return;
    if (journal_ != nullptr && !SyncNow()) return;
    RunSynced();
  });
}

void Partition::RunSynced() {
  const uint64_t synced = journal_ == nullptr ? 0 : journal_->synced_lsn();
  while (!admitted_.empty() && (admitted_.front().lsn <= synced || !closed_.ok())) {
    // It stays there until it was run: when memory runs out, it is found there, and refused.
    AdmittedCall& call = admitted_.front();
    admitted_bytes_ -= call.bytes();
    Run(call);
    if (options_.crash_point->crashed()) return;
    admitted_.pop_front();
  }
}

void Partition::Tidy() {
  if (options_.crash_point->crashed()) return;
  GiveUpIncompleteCut();
  own_tasks_->RunAll();
  if (options_.crash_point->crashed()) return;
  if (!disk_full_.ok()) NoteStored(TrimRows());
  WriteBaseIfLogIsLong();
  SettleSoon();
  UpdateStats();
}

void Partition::SettleSoon() {
  if (tables_->dense.settled() || settles_soon_) return;
  if (options_.strand == nullptr) return tables_->dense.Settle();
  settles_soon_ = true;
  options_.strand->Add([this] {
    settles_soon_ = false;
    tables_->dense.Settle();
  });
}

// --- Running.

void Partition::Run(AdmittedCall& call) {
  // Also what was admitted in a batch whose sync failed.
  if (!closed_.ok()) return Refuse(call, closed_);
  if (!call.status.ok()) return Refuse(call, call.status, call.retry_after_ms);
  const v1::ExchangeRequest& request = *call.call.request;
  if (AdmissionChecks::IsMutation(request)) {
    if (!call.already_applied) {
      if (absl::Status status = Apply(call); !status.ok()) {
        NoteStored(status);
        // It is in the ledger and the log, but not in the tables: only a recovery makes them one.
        if (closed_.ok()) Fail(status.message());
        return Refuse(call, closed_);
      }
      if (options_.crash_point->Pass("applied")) return;
      NoteStored(TrimRows());
      if (options_.crash_point->crashed()) return;
    }
    AnswerOk(call);
    ReleaseParked();
    return;
  }
  switch (request.operation_case()) {
    case Operation::kDensePull:
    case Operation::kSparsePull:
      return Park(job().policy().Required(request.clock()), call, waiting_for_completion_);
    case Operation::kCut:
      return Park(request.clock(), call, waiting_for_completion_);
    default:
      return Park(request.clock() + 1, call, waiting_for_closes_);
  }
}

absl::Status Partition::Apply(const AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  switch (request.operation_case()) {
    case Operation::kDensePush:
    case Operation::kSparsePush:
      return updater_.Push(call, clocks_.completed());
    case Operation::kClose:
      clocks_.Close(request.slot(), job().policy().synchronous()
                                        ? std::optional<uint64_t>(request.close().examples())
                                        : std::nullopt);
      return CompleteClocks(call.lsn);
    default:
      return EndClock(request.clip().scale(), call.lsn);
  }
}

absl::Status Partition::CompleteClocks(uint64_t lsn) {
  if (job().clips_by_norm()) return absl::OkStatus();
  while (clocks_.completed() < clocks_.slowest()) {
    if (job().policy().synchronous()) {
      MUSTER_RETURN_IF_ERROR(EndClock(1, lsn));
    } else {
      clocks_.Complete();
    }
  }
  return absl::OkStatus();
}

absl::Status Partition::EndClock(double scale, uint64_t lsn) {
  if (job().clips_by_norm()) {
    last_norms_ = ClipNorms();
    norms_.clear();
  }
  MUSTER_RETURN_IF_ERROR(
      updater_.EndClock(clocks_.completed(), scale, clocks_.pending_examples(), lsn));
  clocks_.Complete();
  return absl::OkStatus();
}

// --- Rows and the disk.

absl::Status Partition::TrimRows() {
  if (rows_dropped_at_ < clocks_.completed()) {
    rows_dropped_at_ = clocks_.completed();
    MUSTER_RETURN_IF_ERROR(tables_->DropExpired(clocks_.completed()));
  }
  if (!tables_->OverCache()) return absl::OkStatus();
  const uint64_t before_lsn = updater_.replays_previous() ? updater_.last_lsn() : kEveryLsn;
  MUSTER_RETURN_IF_ERROR(tables_->TrimCache(before_lsn, clocks_.completed()));
  options_.crash_point->Pass("evicted");
  return absl::OkStatus();
}

void Partition::NoteStored(const absl::Status& status) {
  if (status.ok() || absl::IsResourceExhausted(status)) {
    disk_full_ = status;
    return;
  }
  Close(absl::Status(absl::IsDataLoss(status) ? status.code() : absl::StatusCode::kUnavailable,
                     absl::StrCat("partition ", tables_->partition, " of job ", job().job_id(),
                                  " has lost touch with its rows on disk: ", status.message())));
}

absl::Status Partition::CheckRoomForRows() const {
  if (disk_full_.ok() || !tables_->OverCache()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the rows of partition ", tables_->partition, " of job ", job().job_id(),
                   " use ", tables_->used_row_bytes(), " bytes of memory, at most ",
                   job().cache_bytes(), " may, and there is no room to evict them to (",
                   disk_full_.message(), "); the push is taken once there is"));
}

const std::string& Partition::ClipNorms() {
  if (norms_.empty()) norms_ = updater_.SquaredNorms(clocks_.pending_examples());
  return norms_;
}

// --- Answers.

void Partition::Answer(AdmittedCall& call, v1::ExchangeReply reply, Payload payload) const {
  const auto done = std::exchange(call.call.done, nullptr);
  if (done == nullptr) return;
  reply.set_request_id(call.call.request->request_id());
  reply.set_slowest_clock(clocks_.completed());
  reply.set_fastest_clock(clocks_.fastest());
  done(std::move(reply), std::move(payload));
}

void Partition::AnswerOk(AdmittedCall& call, Payload payload) const {
  v1::ExchangeReply reply;
  reply.set_already_applied(call.already_applied);
  Answer(call, std::move(reply), std::move(payload));
}

void Partition::Refuse(AdmittedCall& call, const absl::Status& status,
                       uint32_t retry_after_ms) const {
  if (call.call.done == nullptr) return;
  // A connection that finds no memory to send it ends itself. The other calls are answered.
  CatchOutOfMemory("a refusal", [&] {
    Answer(call, Refusal(*call.call.request, status, retry_after_ms), Payload());
    return absl::OkStatus();
  }).IgnoreError();
}

void Partition::Close(absl::Status status) {
  if (!closed_.ok()) return;
  closed_ = std::move(status);
  if (options_.crash_point->crashed()) return;
  for (ParkedCalls* parked : {&waiting_for_completion_, &waiting_for_closes_}) {
    while (auto call = parked->TakeAny()) Refuse(*call, closed_);
  }
  for (std::vector<AdmittedCall>* cuts : {&take_calls_, &cut_calls_, &deferred_cuts_}) {
    for (AdmittedCall& call : std::exchange(*cuts, {})) Refuse(call, closed_);
  }
}

uint64_t Partition::AdmittedRowBytes() const {
  uint64_t bytes = 0;
  for (const AdmittedCall& call : admitted_) {
    if (!call.call.request->has_sparse_push() || call.lsn == 0) continue;
    const TieredTable& table = tables_->sparse[call.call.request->sparse_push().table() - 1];
    bytes += call.chunk.keys.size() * table.bytes_per_row();
  }
  return bytes;
}

void Partition::UpdateStats() {
  const uint64_t sparse_bytes =
      tables_->sparse_bytes() + updater_.memory_bytes() + cut_writer_->memory_bytes();
  sparse_memory_.Set(sparse_bytes + AdmittedRowBytes());
  stats_.dense_bytes = tables_->dense.PayloadBytes(0, tables_->dense.size());
  stats_.sparse_rows = tables_->sparse_rows();
  stats_.rows_on_disk = tables_->rows_on_disk();
  stats_.memory_bytes = tables_->dense.memory_bytes() + sparse_bytes;
  stats_.log_bytes = journal_ == nullptr ? 0 : journal_->log_bytes();
}

void Partition::Count(std::atomic<uint64_t> ServedBytes::*counter, uint64_t bytes) {
  if (options_.served == nullptr) return;
  (options_.served->*counter).fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace muster
