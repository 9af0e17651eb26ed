#include "server/shard/partition.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/partition_checkpoint.h"
#include "server/shard/refusal.h"

namespace muster {
namespace {

// Cuts whose repeats are answered.
constexpr size_t kCutsKnown = 2;

using Operation = v1::ExchangeRequest::OperationCase;

// What a caller that was refused for want of room should wait: a few batches' time.
constexpr uint32_t kRetryAfterMs = 20;

}  // namespace

Partition::Partition(std::unique_ptr<PartitionTables> tables, uint64_t start,
                     std::unique_ptr<PartitionJournal> journal, Options options)
    : options_(std::move(options)),
      tables_(std::move(tables)),
      journal_(std::move(journal)),
      sparse_memory_(*options_.budget),
      admission_(*tables_, *options_.pool, sparse_memory_, start),
      updater_(*tables_),
      clocks_(job().slots(), start) {
  UpdateStats();
}

Partition::~Partition() = default;

std::vector<uint64_t> Partition::closed_clocks() const {
  std::vector<uint64_t> closed;
  for (uint32_t slot = 0; slot < clocks_.slots(); ++slot) {
    closed.push_back(clocks_.slot(slot).closed);
  }
  return closed;
}

// --- Admission.

absl::Status Partition::LogFailed(const absl::Status& status) const {
  return absl::UnavailableError(absl::StrCat("the log of partition ", tables_->partition,
                                             " of job ", job().job_id(),
                                             " failed, restart the server: ", status.message()));
}

absl::StatusOr<std::vector<uint64_t>> Partition::EnterTask(uint32_t slot, uint64_t incarnation) {
  if (options_.crash_point->crashed()) return absl::UnavailableError("crashed");
  if (!closed_.ok()) return closed_;
  const Ledger& ledger = admission_.ledger();
  MUSTER_RETURN_IF_ERROR(ledger.CheckIncarnation(slot, incarnation));
  // On disk first: the clocks that the task starts from must stay what they are.
  if (journal_ != nullptr && incarnation > ledger.incarnation(slot)) {
    MUSTER_RETURN_IF_ERROR(LogIncarnation(slot, incarnation));
  }
  MUSTER_RETURN_IF_ERROR(admission_.EnterIncarnation(slot, incarnation));
  return closed_clocks();
}

AdmittedCall Partition::Admit(ExchangeCall call) {
  if (!closed_.ok()) {
    AdmittedCall refused;
    refused.call = std::move(call);
    refused.status = closed_;
    return refused;
  }
  AdmittedCall admitted = admission_.Check(std::move(call));
  const v1::ExchangeRequest& request = *admitted.call.request;
  if (!admitted.status.ok() || admitted.already_applied) return admitted;
  if (Admission::IsMutation(request)) {
    stats_.bytes_pushed += admitted.call.payload.size();
    if (journal_ != nullptr) {
      absl::StatusOr<uint64_t> lsn = journal_->Append(request, admitted.call.payload);
      if (!lsn.ok()) {
        admitted.status = lsn.status();
        // A log that refuses all further use: what waits for a restart must not look like a mistake
        // of the caller.
        if (absl::IsFailedPrecondition(lsn.status())) {
          Close(LogFailed(lsn.status()));
          admitted.status = closed_;
        }
        return admitted;
      }
      admitted.lsn = *lsn;
      appended_ = true;
    }
    admission_.Enter(admitted);
  }
  // What was read into a chunk need not be held twice.
  if (admitted.chunk.memory != nullptr) admitted.call.payload = Payload();
  return admitted;
}

void Partition::Execute(std::vector<ExchangeCall> calls) {
  if (options_.crash_point->crashed()) return;
  appended_ = false;
  std::vector<AdmittedCall> admitted;
  admitted.reserve(calls.size());
  for (ExchangeCall& call : calls) admitted.push_back(Admit(std::move(call)));
  if (appended_) {
    if (options_.crash_point->Pass("appended")) return;
    if (absl::Status status = journal_->Sync(); !status.ok()) {
      Close(LogFailed(status));
    }
    if (options_.crash_point->Pass("synced")) return;
  }
  for (AdmittedCall& call : admitted) {
    Run(std::move(call));
    if (options_.crash_point->crashed()) return;
  }
  WriteBaseIfLogIsLong();
  UpdateStats();
}

// --- Running.

void Partition::Run(AdmittedCall call) {
  // Also what was admitted in a batch whose sync failed.
  if (!closed_.ok()) return Refuse(call, closed_);
  if (!call.status.ok()) return Refuse(call, call.status);
  const v1::ExchangeRequest& request = *call.call.request;
  if (Admission::IsMutation(request)) {
    if (!call.already_applied) {
      Apply(call);
      if (options_.crash_point->Pass("applied")) return;
    }
    AnswerOk(call);
    ReleaseParked();
    return;
  }
  switch (request.operation_case()) {
    case Operation::kDensePull:
    case Operation::kSparsePull:
      return Park(job().policy().Required(request.clock()), std::move(call),
                  waiting_for_completion_);
    case Operation::kCut:
      return Park(request.clock(), std::move(call), waiting_for_completion_);
    default:
      return Park(request.clock() + 1, std::move(call), waiting_for_closes_);
  }
}

void Partition::Apply(const AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  switch (request.operation_case()) {
    case Operation::kDensePush:
    case Operation::kSparsePush:
      return updater_.Push(call);
    case Operation::kClose:
      clocks_.Close(request.slot(), job().policy().synchronous()
                                        ? std::optional<uint64_t>(request.close().examples())
                                        : std::nullopt);
      return CompleteClocks(call.lsn);
    default:
      return EndClock(request.clip().scale(), call.lsn);
  }
}

void Partition::CompleteClocks(uint64_t lsn) {
  if (job().clips_by_norm()) return;
  while (clocks_.completed() < clocks_.slowest()) {
    if (job().policy().synchronous()) {
      EndClock(1, lsn);
    } else {
      clocks_.Complete();
    }
  }
}

void Partition::EndClock(double scale, uint64_t lsn) {
  if (job().clips_by_norm()) {
    last_norms_ = ClipNorms();
    norms_.clear();
  }
  updater_.EndClock(clocks_.completed(), scale, clocks_.pending_examples(), lsn);
  clocks_.Complete();
}

const std::string& Partition::ClipNorms() {
  if (norms_.empty()) norms_ = updater_.SquaredNorms(clocks_.pending_examples());
  return norms_;
}

// --- Serving.

void Partition::Park(uint64_t clocks, AdmittedCall call, ParkedCalls& parked) {
  const uint64_t reached =
      &parked == &waiting_for_completion_ ? clocks_.completed() : clocks_.slowest();
  if (clocks <= reached) return Serve(std::move(call));
  const size_t bytes = waiting_for_completion_.bytes() + waiting_for_closes_.bytes();
  if (bytes + call.payload_bytes() > options_.parked_bytes) {
    return Refuse(call,
                  absl::ResourceExhaustedError(absl::StrCat(
                      "partition ", tables_->partition, " of job ", job().job_id(), " has ", bytes,
                      " bytes of waiting requests, at most ", options_.parked_bytes, " may")),
                  kRetryAfterMs);
  }
  parked.Park(clocks, std::move(call));
}

void Partition::ReleaseParked() {
  for (AdmittedCall& call : waiting_for_completion_.TakeReady(clocks_.completed())) {
    Serve(std::move(call));
  }
  for (AdmittedCall& call : waiting_for_closes_.TakeReady(clocks_.slowest())) {
    Serve(std::move(call));
  }
}

void Partition::Serve(AdmittedCall call) {
  if (call.cancelled() || options_.crash_point->crashed()) return;
  // A later task of the slot may have come while it waited.
  const v1::ExchangeRequest& request = *call.call.request;
  if (absl::Status fenced =
          admission_.ledger().CheckIncarnation(request.slot(), request.incarnation());
      !fenced.ok()) {
    return Refuse(call, fenced);
  }
  switch (request.operation_case()) {
    case Operation::kDensePull:
      return ServeDensePull(std::move(call));
    case Operation::kSparsePull:
      return ServeSparsePull(std::move(call));
    case Operation::kCut:
      return ServeCut(std::move(call));
    default:
      return ServeClipNorms(std::move(call));
  }
}

absl::Status Partition::GoneBy(const v1::ExchangeRequest& request,
                               absl::string_view message) const {
  // A task that takes a slot over repeats at most the last clock which the slot has closed here.
  if (request.clock() + 1 < clocks_.slot(request.slot()).closed) {
    return absl::AbortedError(absl::StrCat(
        message, "; slot ", request.slot(), " itself has closed ",
        clocks_.slot(request.slot()).closed, " clocks here: it was restarted, rejoin"));
  }
  return absl::FailedPreconditionError(message);
}

absl::StatusOr<DenseTable::Version> Partition::VersionFor(
    const v1::ExchangeRequest& request) const {
  const uint64_t clock = request.clock();
  if (job().order() == SummationOrder::kArrival || clock >= clocks_.completed()) {
    return DenseTable::Version::kCurrent;
  }
  if (clock + 1 == clocks_.completed() && updater_.previous_kept())
    return DenseTable::Version::kPrevious;
  return GoneBy(request,
                absl::StrCat("pull at clock ", clock, " from partition ", tables_->partition,
                             " of job ", job().job_id(),
                             " refused: the job is deterministic, and the values of that clock are "
                             "not kept at clock ",
                             clocks_.completed(), "; go back to a checkpoint"));
}

void Partition::ServeDensePull(AdmittedCall call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const absl::StatusOr<DenseTable::Version> version = VersionFor(request);
  if (!version.ok()) return Refuse(call, version.status());
  Payload payload = tables_->dense.Pull(request.dense_pull().first_block(),
                                        request.dense_pull().blocks(), *version);
  stats_.bytes_pulled += payload.size();
  AnswerOk(call, std::move(payload));
}

void Partition::ServeSparsePull(AdmittedCall call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const absl::StatusOr<DenseTable::Version> version = VersionFor(request);
  if (!version.ok()) return Refuse(call, version.status());
  const size_t table = request.sparse_pull().table() - 1;
  const size_t floats = call.chunk.keys.size() * tables_->sparse[table].dim();
  const std::shared_ptr<float> values = options_.pool->Take(floats);
  updater_.PullRows(table, call.chunk.keys, *version, {values.get(), floats});
  stats_.bytes_pulled += floats * sizeof(float);
  const Payload::Piece piece(reinterpret_cast<const std::byte*>(values.get()),
                             floats * sizeof(float));
  AnswerOk(call, Payload({piece}, values));
}

void Partition::ServeClipNorms(AdmittedCall call) {
  const uint64_t clock = call.call.request->clock();
  if (clock + 1 < clocks_.completed()) {
    return Refuse(call, GoneBy(*call.call.request,
                               absl::StrCat("norms of clock ", clock, " on partition ",
                                            tables_->partition, " of job ", job().job_id(),
                                            " are not kept at clock ", clocks_.completed())));
  }
  call.already_applied = clock < clocks_.completed();
  const std::string& norms = call.already_applied ? last_norms_ : ClipNorms();
  AnswerOk(call, Payload::Copy({reinterpret_cast<const std::byte*>(norms.data()), norms.size()}));
}

void Partition::ServeCut(AdmittedCall call) {
  const uint64_t clock = call.call.request->clock();
  if (absl::Status status = TakeCut(*call.call.request); !status.ok()) {
    return Refuse(call,
                  absl::Status(status.code(), absl::StrCat("cut of partition ", tables_->partition,
                                                           " of job ", job().job_id(), " at clock ",
                                                           clock, " failed: ", status.message())));
  }
  if (options_.crash_point->crashed()) return;
  v1::ExchangeReply reply;
  const CutRecord& cut = *FindCut(clock);
  reply.set_checkpoint_path(cut.path);
  reply.set_checkpoint_bytes(cut.bytes);
  reply.set_checkpoint_checksum(cut.checksum);
  Answer(call, std::move(reply), Payload());
}

const Partition::CutRecord* Partition::FindCut(uint64_t clock) const {
  for (const CutRecord& cut : cuts_) {
    if (cut.clock == clock) return &cut;
  }
  return nullptr;
}

absl::Status Partition::TakeCut(const v1::ExchangeRequest& request) {
  const uint64_t clock = request.clock();
  if (FindCut(clock) != nullptr) return absl::OkStatus();
  if (clock < clocks_.completed() || admission_.ledger().HasContributionsFrom(clock)) {
    return GoneBy(request, absl::StrCat("slots have gone on (", clocks_.completed(),
                                        " clocks are complete); every slot must ask for the cut "
                                        "before it pushes"));
  }
  MUSTER_ASSIGN_OR_RETURN(const PartitionFileInfo file,
                          WritePartitionFile(*options_.checkpoint_storage, *tables_, clock));
  const std::deque<CutRecord> before = cuts_;
  cuts_.push_front(
      {.clock = clock, .path = file.path, .bytes = file.bytes, .checksum = file.checksum});
  if (cuts_.size() > kCutsKnown) cuts_.pop_back();
  if (journal_ == nullptr) return absl::OkStatus();
  absl::Status status = WriteBase(PartitionJournal::Extent::kChanged);
  if (!status.ok()) cuts_ = before;
  return status;
}

// --- Answers.

void Partition::Answer(const AdmittedCall& call, v1::ExchangeReply reply, Payload payload) const {
  reply.set_request_id(call.call.request->request_id());
  reply.set_slowest_clock(clocks_.completed());
  reply.set_fastest_clock(clocks_.fastest());
  call.call.done(std::move(reply), std::move(payload));
}

void Partition::AnswerOk(const AdmittedCall& call, Payload payload) const {
  v1::ExchangeReply reply;
  reply.set_already_applied(call.already_applied);
  Answer(call, std::move(reply), std::move(payload));
}

void Partition::Refuse(const AdmittedCall& call, const absl::Status& status,
                       uint32_t retry_after_ms) const {
  Answer(call, Refusal(*call.call.request, status, retry_after_ms), Payload());
}

void Partition::Close(absl::Status status) {
  if (!closed_.ok()) return;
  closed_ = std::move(status);
  if (options_.crash_point->crashed()) return;
  for (ParkedCalls* parked : {&waiting_for_completion_, &waiting_for_closes_}) {
    for (const AdmittedCall& call : parked->TakeAll()) Refuse(call, closed_);
  }
}

void Partition::UpdateStats() {
  const uint64_t sparse_bytes = tables_->sparse_bytes() + updater_.memory_bytes();
  sparse_memory_.Set(sparse_bytes);
  stats_.dense_bytes = tables_->dense.PayloadBytes(0, tables_->dense.size());
  stats_.sparse_rows = tables_->sparse_rows();
  stats_.memory_bytes = tables_->dense.memory_bytes() + sparse_bytes;
  stats_.log_bytes = journal_ == nullptr ? 0 : journal_->log_bytes();
}

}  // namespace muster
