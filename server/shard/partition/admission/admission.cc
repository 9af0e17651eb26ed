#include "server/shard/partition/admission/admission.h"

#include <utility>

#include "absl/status/statusor.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/gathered_payload.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/calls/refusal.h"

namespace muster {

using KeptPayload = JournalWriter::KeptPayload;

KeptPayload Admission::Check(AdmittedCall& admitted) {
  ExchangeCall& call = admitted.call;
  // The bytes that are checked and applied must be those that the log holds and sums. Of dense
  // gradients no check looks at the values, so that a copy which the log makes anyway will do.
  const bool shared =
      parts_.log.logs() && call.payload_memory != ExchangeCall::PayloadMemory::kPrivate;
  const bool log_copies =
      shared && call.request->has_dense_push() && parts_.log.HoldsCopyOf(call.payload.size());
  if (shared) {
    if (!log_copies) call.payload = GatherPayload(call.payload, parts_.pool);
    call.payload_memory = ExchangeCall::PayloadMemory::kPrivate;
  }
  parts_.checks.Check(admitted);
  return log_copies ? KeptPayload::kLogged : KeptPayload::kOwn;
}

void Admission::Admit(AdmittedCall& admitted) {
  if (!parts_.health.ok()) {
    admitted.status = parts_.health.status();
    return;
  }
  // So far nothing has changed, and want of memory is the operation's own.
  const absl::StatusOr<KeptPayload> kept = CatchOutOfMemory(
      "the operation", [&]() -> absl::StatusOr<KeptPayload> { return Check(admitted); });
  if (!kept.ok()) {
    admitted.status = kept.status();
    admitted.retry_after_ms = kNoMemoryRetryMs;
    return;
  }
  const v1::ExchangeRequest& request = *admitted.call.request;
  if (!admitted.status.ok() || admitted.already_applied) return;
  if (request.has_sparse_push()) {
    admitted.status = parts_.rows.CheckRoom();
    admitted.retry_after_ms = kDiskFullRetryMs;
    if (!admitted.status.ok()) return;
  }
  if (AdmissionChecks::IsMutation(request)) {
    CountServed(parts_.served, &ServedBytes::pushed, admitted.call.payload.size());
    if (absl::Status logged = parts_.log.Append(admitted, *kept); !logged.ok()) {
      if (absl::IsResourceExhausted(logged)) admitted.retry_after_ms = kDiskFullRetryMs;
      admitted.status = std::move(logged);
      return;
    }
    parts_.checks.Enter(admitted);
  }
  // The chunk holds what it needs of it.
  if (admitted.chunk.memory != nullptr) admitted.call.payload = Payload();
}

absl::Status Admission::EnterTask(uint32_t slot, uint64_t incarnation) {
  const Ledger& ledger = parts_.checks.ledger();
  MUSTER_RETURN_IF_ERROR(ledger.CheckIncarnation(slot, incarnation));
  // On disk first: the clocks that the task starts from must stay what they are.
  if (incarnation > ledger.incarnation(slot)) {
    v1::ExchangeRequest record;
    record.set_slot(slot);
    record.set_incarnation(incarnation);
    MUSTER_RETURN_IF_ERROR(parts_.log.Write(std::move(record), Payload()));
  }
  return parts_.checks.EnterIncarnation(slot, incarnation);
}

}  // namespace muster
