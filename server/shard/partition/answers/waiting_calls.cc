#include "server/shard/partition/answers/waiting_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

using Operation = v1::ExchangeRequest::OperationCase;

// Time that a caller refused for lack of room should wait: a few batches' time.
constexpr uint32_t kRetryAfterMs = 20;

}  // namespace

void WaitingCalls::Await(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const Clocks& clocks = context_.clocks;
  switch (request.operation_case()) {
    case Operation::kDensePull:
    case Operation::kSparsePull:
      return Park(context_.job().policy().Required(request.clock()), call, clocks.completed(),
                  for_completion_);
    case Operation::kCut:
      return Park(request.clock(), call, clocks.completed(), for_completion_);
    case Operation::kEnter:
      return Park(request.clock() + 1, call, context_.entries.decided(), for_entries_);
    default:
      return Park(request.clock() + 1, call, clocks.slowest(), for_closes_);
  }
}

absl::Status WaitingCalls::CheckReachable(uint64_t clocks) const {
  if (ended_ == nullptr) return absl::OkStatus();
  const JobTables& job = context_.job();
  for (const uint32_t slot : ended_->Of(job.job_id(), job.generation())) {
    if (slot >= context_.clocks.slots()) continue;
    const uint64_t closed = context_.clocks.slot(slot).closed;
    if (closed >= clocks) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "slot ", slot, " has ended after ", closed, " steps, and others wait for step ", clocks,
        " of it; all ranks on servers make as many steps, except with unlimited staleness"));
  }
  return absl::OkStatus();
}

void WaitingCalls::RefuseUnreachable() {
  for (ParkedCalls* parked : {&for_completion_, &for_closes_}) {
    while (parked->size() > 0) {
      const absl::Status status = CheckReachable(parked->most_clocks());
      if (status.ok()) break;
      AdmittedCall call = parked->TakeLast();
      context_.answers.Refuse(call, status);
    }
  }
}

void WaitingCalls::Park(uint64_t clocks, AdmittedCall& call, uint64_t reached,
                        ParkedCalls& parked) {
  if (clocks <= reached) return Serve(std::move(call));
  // A clock is decided without slots that have ended.
  const absl::Status reachable =
      &parked == &for_entries_ ? absl::OkStatus() : CheckReachable(clocks);
  if (!reachable.ok()) return context_.answers.Refuse(call, reachable);
  const size_t bytes = for_completion_.bytes() + for_closes_.bytes() + for_entries_.bytes();
  if (bytes + call.bytes() > most_bytes_) {
    return context_.answers.Refuse(
        call,
        absl::ResourceExhaustedError(absl::StrCat(
            "partition ", context_.tables.partition, " of job ", context_.job().job_id(), " has ",
            bytes, " bytes of waiting requests, at most ", most_bytes_, " may")),
        kRetryAfterMs);
  }
  parked.Park(clocks, std::move(call));
}

void WaitingCalls::Release() {
  while (auto call = for_completion_.TakeReady(context_.clocks.completed())) {
    Serve(*std::move(call));
  }
  while (auto call = for_closes_.TakeReady(context_.clocks.slowest())) {
    Serve(*std::move(call));
  }
  while (auto call = for_entries_.TakeReady(context_.entries.decided())) {
    Serve(*std::move(call));
  }
}

void WaitingCalls::Serve(AdmittedCall call) {
  const absl::Status status = CatchOutOfMemory("an answer", [&] {
    ServeKnown(call);
    return absl::OkStatus();
  });
  if (status.ok()) return;
  context_.health.Fail(status.message());
  context_.answers.Refuse(call, context_.health.status());
}

void WaitingCalls::ServeKnown(AdmittedCall& call) {
  if (call.cancelled() || context_.health.crashed()) return;
  if (!context_.health.ok()) return context_.answers.Refuse(call, context_.health.status());
  // A later task of the slot may have come while it waited.
  const v1::ExchangeRequest& request = *call.call.request;
  if (absl::Status fenced = context_.ledger.CheckIncarnation(request.slot(), request.incarnation());
      !fenced.ok()) {
    return context_.answers.Refuse(call, fenced);
  }
  if (request.has_cut()) return cuts_.Serve(call);
  reads_.Serve(call);
}

void WaitingCalls::DropCancelled() {
  for_completion_.DropCancelled();
  for_closes_.DropCancelled();
  for_entries_.DropCancelled();
}

void WaitingCalls::RefuseAll() {
  for (ParkedCalls* parked : {&for_completion_, &for_closes_, &for_entries_}) {
    while (auto call = parked->TakeAny()) {
      context_.answers.Refuse(*call, context_.health.status());
    }
  }
}

}  // namespace muster
