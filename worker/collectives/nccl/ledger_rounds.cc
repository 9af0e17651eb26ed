#include "worker/collectives/nccl/ledger_rounds.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace {

// A round has no deadline: a dead rank ends it, and calls have deadlines of their own.
constexpr absl::Duration kNoDeadline = absl::Hours(24 * 365);

// Returns the error that an Aborted status of the host group carries as text, so that every rank
// returns the same code.
absl::Status WithCodeOfReason(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kAborted) return status;
  for (absl::StatusCode code :
       {absl::StatusCode::kFailedPrecondition, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kUnavailable, absl::StatusCode::kInternal, absl::StatusCode::kAborted}) {
    const std::string prefix = absl::StrCat(absl::StatusCodeToString(code), ": ");
    const auto at = status.message().find(prefix);
    if (at != absl::string_view::npos) {
      return absl::Status(code, status.message().substr(at + prefix.size()));
    }
  }
  return status;
}

}  // namespace

LedgerRounds::LedgerRounds(std::unique_ptr<Communicator> host, const std::string& group,
                           std::vector<std::string> names)
    : host_(std::move(host)), ledger_(group, host_->rank(), host_->size(), std::move(names)) {
  thread_ = std::thread([this] { Exchange(); });
}

LedgerRounds::~LedgerRounds() {
  Leave(absl::Seconds(1));
  thread_.join();
}

absl::Status LedgerRounds::ErrorLocked() const {
  if (!status_.ok()) return status_;
  if (ledger_.closed()) return ledger_.ClosedError();
  if (ended_ || leaving_) return absl::AbortedError("this rank has left the group");
  return absl::OkStatus();
}

absl::StatusOr<CallLedger::Ticket> LedgerRounds::Enter(const LedgerEntry& entry) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status error = ErrorLocked(); !error.ok()) return error;
  untold_ = true;
  return ledger_.Enter(entry);
}

bool LedgerRounds::Confirmed(const CallLedger::Ticket& ticket) const {
  absl::MutexLock lock(&mutex_);
  return ledger_.Confirmed(ticket);
}

absl::Status LedgerRounds::AwaitConfirmed(const CallLedger::Ticket& ticket,
                                          absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto settled = [this, &ticket]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ended_ || ledger_.Confirmed(ticket);
  };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&settled), timeout)) {
    return absl::DeadlineExceededError(absl::StrCat("not every rank has come within ",
                                                    absl::FormatDuration(timeout), ": ",
                                                    ledger_.Describe()));
  }
  return ledger_.Confirmed(ticket) ? absl::OkStatus() : ErrorLocked();
}

absl::StatusOr<std::unique_ptr<Communicator>> LedgerRounds::Split(int colour, int key,
                                                                  absl::Duration timeout) {
  SplitRequest request;
  request.colour = colour;
  request.key = key;
  LedgerEntry entry;
  entry.kind = kLedgerSplit;
  absl::MutexLock lock(&mutex_);
  if (absl::Status error = ErrorLocked(); !error.ok()) return error;
  untold_ = true;
  request.ticket = ledger_.Enter(entry);
  split_ = &request;
  const auto settled = [this, &request]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return request.done || ended_; };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&settled), timeout) && proposal_.ok()) {
    proposal_ = absl::DeadlineExceededError(absl::StrCat("split: not every rank has come within ",
                                                         absl::FormatDuration(timeout), ": ",
                                                         ledger_.Describe()));
    // After the deadline the ranks only agree on this error; a stopped rank must not hold that up.
    if (!mutex_.AwaitWithTimeout(absl::Condition(&settled), absl::Milliseconds(500))) {
      if (status_.ok()) status_ = proposal_;
      host_->Abort(proposal_.ToString());
      mutex_.Await(absl::Condition(&settled));
    }
  } else {
    mutex_.Await(absl::Condition(&settled));
  }
  split_ = nullptr;
  if (request.done) return std::move(request.result);
  return ErrorLocked();
}

absl::Status LedgerRounds::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void LedgerRounds::Propose(const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (proposal_.ok()) proposal_ = reason;
}

void LedgerRounds::Fail(const absl::Status& reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    if (status_.ok()) status_ = reason;
  }
  host_->Abort(reason.ToString());
}

void LedgerRounds::Leave(absl::Duration grace) {
  {
    absl::MutexLock lock(&mutex_);
    leaving_ = true;
    if (mutex_.AwaitWithTimeout(absl::Condition(&ended_), grace)) return;
  }
  Fail(absl::AbortedError(absl::StrCat("rank ", host_->rank(),
                                       " has left; not all others answered within ",
                                       absl::FormatDuration(grace))));
}

std::string LedgerRounds::Describe() const {
  absl::MutexLock lock(&mutex_);
  return ledger_.Describe();
}

bool LedgerRounds::UrgentLocked() const {
  return untold_ || leaving_ || !proposal_.ok() || (moving_ && ledger_.HasUnconfirmed());
}

void LedgerRounds::Exchange() {
  std::vector<LedgerRecord> records(host_->size());
  const auto urgent = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return UrgentLocked(); };
  absl::MutexLock lock(&mutex_);
  while (status_.ok() && !ledger_.closed()) {
    mutex_.AwaitWithTimeout(absl::Condition(&urgent), ledger_.HasUnconfirmed() ? kPace : kTick);
    LedgerRecord record = ledger_.NextRecord();
    untold_ = record.entries == LedgerRecord::kEntries;
    // The last words of a rank come after the last of its calls.
    record.leaving = leaving_ && !untold_;
    record.code = static_cast<uint32_t>(proposal_.code());
    // A message of no bytes may have no address.
    proposal_.message().copy(record.message, sizeof(record.message) - 1);

    mutex_.Unlock();
    CollectiveCall call;
    call.kind = Collective::kAllGather;
    call.dtype = DType::kUint8;
    call.count = sizeof(LedgerRecord);
    call.in = &record;
    call.out = records.data();
    call.timeout = kNoDeadline;
    call.label = "ledger";
    const absl::Status exchanged = host_->Run(call);
    mutex_.Lock();

    const absl::Status verdict =
        exchanged.ok() ? ledger_.Judge(records) : WithCodeOfReason(exchanged);
    if (status_.ok()) status_ = verdict;
    moving_ = std::any_of(records.begin(), records.end(),
                          [](const LedgerRecord& r) { return r.entries > 0; });
    if (status_.ok() && split_ != nullptr && !split_->done && ledger_.Confirmed(split_->ticket)) {
      SplitRequest* request = split_;
      mutex_.Unlock();
      auto result = host_->Split(request->colour, request->key);
      mutex_.Lock();
      if (!result.ok() && status_.ok()) status_ = WithCodeOfReason(result.status());
      request->result = std::move(result);
      request->done = true;
    }
  }
  ended_ = true;
}

}  // namespace muster
