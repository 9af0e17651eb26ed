#include "server/shard/partition/journal/journal_writer.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/trace/trace_scope.h"
#include "proto/parameter_service.pb.h"

namespace muster {

JournalWriter::JournalWriter(PartitionJournal* journal, const PartitionTables& tables,
                             PartitionHealth& health)
    : journal_(journal), tables_(tables), health_(health) {}

void JournalWriter::LogFailed(const absl::Status& status) {
  health_.Close(absl::UnavailableError(absl::StrCat(
      "the log of partition ", tables_.partition, " of job ", tables_.job->job_id(),
      " failed, and is read back once the job's tables are opened again: ", status.message())));
}

absl::Status JournalWriter::Append(AdmittedCall& call, KeptPayload kept) {
  if (journal_ == nullptr) return absl::OkStatus();
  Payload copy;
  const absl::StatusOr<uint64_t> lsn = journal_->Append(
      *call.call.request, call.call.payload, kept == KeptPayload::kLogged ? &copy : nullptr);
  if (lsn.ok()) {
    call.lsn = *lsn;
    if (kept == KeptPayload::kLogged) call.call.payload = std::move(copy);
    return absl::OkStatus();
  }
  // A log that refuses all further use: what waits for a restart must not look like a mistake of
  // the caller.
  if (!absl::IsFailedPrecondition(lsn.status())) return lsn.status();
  LogFailed(lsn.status());
  return health_.status();
}

absl::Status JournalWriter::Write(v1::ExchangeRequest record, const Payload& payload) {
  if (journal_ == nullptr) return absl::OkStatus();
  record.set_job_id(tables_.job->job_id());
  record.set_generation(tables_.job->generation());
  record.set_partition(tables_.partition);
  if (absl::Status status = journal_->Append(record, payload).status(); !status.ok()) {
    if (!absl::IsFailedPrecondition(status)) return absl::UnavailableError(status.message());
    LogFailed(status);
    return health_.status();
  }
  if (health_.Pass("appended")) return absl::UnavailableError("crashed");
  if (absl::Status status = journal_->Sync(); !status.ok()) {
    LogFailed(status);
    return health_.status();
  }
  if (health_.Pass("synced")) return absl::UnavailableError("crashed");
  return absl::OkStatus();
}

bool JournalWriter::Sync() {
  if (!health_.ok() || synced_lsn() == last_lsn()) return true;
  const TraceScope trace(ActionKind::kLogSync);
  if (absl::Status status = journal_->Sync(); !status.ok()) LogFailed(status);
  return !health_.Pass("synced");
}

bool JournalWriter::FinishSync() {
  if (absl::Status status = journal_->FinishSync(); !status.ok()) LogFailed(status);
  return !health_.Pass("synced");
}

}  // namespace muster
