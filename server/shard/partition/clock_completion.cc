#include "server/shard/partition/clock_completion.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

absl::Status Unfit(const PartitionTables& tables, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("partition ", tables.partition, " of job ",
                                          tables.job->job_id(), " cannot be taken over: ", why,
                                          "; go back to a checkpoint under a new generation"));
}

}  // namespace

absl::StatusOr<v1::ExchangeRequest> ClockCompletion::MissingClose(uint32_t slot) const {
  const JobTables& job = *parts_.tables.job;
  const Ledger& ledger = parts_.checks.ledger();
  v1::ExchangeRequest request;
  request.set_job_id(job.job_id());
  request.set_generation(job.generation());
  request.set_partition(parts_.tables.partition);
  request.set_slot(slot);
  request.set_incarnation(ledger.incarnation(slot));
  request.set_clock(ledger.closed(slot));
  v1::CloseClock& close = *request.mutable_close();
  for (uint32_t table = 0; table < parts_.tables.sparse.size(); ++table) {
    close.add_sparse_chunks(ledger.chunks_in(slot, table));
  }
  const std::optional<Ledger::Told> told = ledger.told(slot);
  if (told.has_value()) request.set_rate_factor(told->rate_factor);
  // One slot of those that compute a data rank's share together closes with the examples.
  if (job.mesh().Position(static_cast<int>(slot), kModelAxes) > 0) return request;
  if (told.has_value()) {
    close.set_examples(told->examples);
    return request;
  }
  // Rows' gradients are divided by the examples of the closes; those of dense blocks by those of
  // their own pushes.
  if (parts_.applier.updater().memory_bytes() == 0) return request;
  return Unfit(parts_.tables,
               absl::StrCat("slot ", slot, " has not closed clock ", request.clock(),
                            " here and has pushed nothing that would tell its examples"));
}

absl::Status ClockCompletion::Close(AdmittedCall& call, bool& torn) {
  if (parts_.journal != nullptr) {
    const absl::StatusOr<uint64_t> lsn = parts_.journal->Append(*call.call.request, Payload());
    // A log that is full takes records later; any other failed one has to be opened again.
    torn = !lsn.ok() && !absl::IsResourceExhausted(lsn.status());
    if (!lsn.ok()) return absl::UnavailableError(lsn.status().message());
    call.lsn = *lsn;
  }
  torn = true;
  parts_.checks.Enter(call);
  if (parts_.journal != nullptr) {
    if (const absl::Status synced = parts_.journal->Sync(); !synced.ok()) {
      return absl::UnavailableError(synced.message());
    }
  }
  MUSTER_RETURN_IF_ERROR(parts_.applier.Replay(call));
  torn = false;
  return absl::OkStatus();
}

absl::Status ClockCompletion::Run(uint64_t clock, bool& torn) {
  const Clocks& clocks = parts_.applier.clocks();
  const uint64_t completed = clocks.completed();
  if (completed == clock) return absl::OkStatus();
  if (completed + 1 != clock) {
    return Unfit(parts_.tables, absl::StrCat("it has completed ", completed,
                                             " clocks, and the generation starts at ", clock));
  }
  if (parts_.tables.job->clips_by_norm()) {
    return Unfit(parts_.tables, absl::StrCat("it has not got the scale of the gradient of clock ",
                                             completed, ", which another partition was told"));
  }
  if (parts_.applier.loss_scale().told()) {
    return Unfit(parts_.tables, absl::StrCat("slots have not closed clock ", completed,
                                             " here, and their closes tell of a loss scale"));
  }
  std::vector<AdmittedCall> missing;
  for (uint32_t slot = 0; slot < clocks.slots(); ++slot) {
    if (clocks.slot(slot).closed >= clock) continue;
    MUSTER_ASSIGN_OR_RETURN(v1::ExchangeRequest close, MissingClose(slot));
    AdmittedCall& call = missing.emplace_back();
    call.call.request = std::make_shared<v1::ExchangeRequest>(std::move(close));
    parts_.checks.Check(call);
    if (!call.status.ok()) return Unfit(parts_.tables, call.status.message());
  }
  for (AdmittedCall& call : missing) MUSTER_RETURN_IF_ERROR(Close(call, torn));
  return absl::OkStatus();
}

}  // namespace muster
