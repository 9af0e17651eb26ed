// The part of Partition that lets operations wait and serves them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/partition/wire_dtype.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/calls/typed_payload.h"
#include "server/shard/partition/partition.h"

namespace muster {
namespace {

using Operation = v1::ExchangeRequest::OperationCase;

// What a caller that was refused for want of room should wait: a few batches' time.
constexpr uint32_t kRetryAfterMs = 20;
// The same for want of memory, which others have to give back.
constexpr uint32_t kNoMemoryRetryMs = 1000;

}  // namespace

void Partition::Park(uint64_t clocks, AdmittedCall& call, ParkedCalls& parked) {
  const uint64_t reached =
      &parked == &waiting_for_completion_ ? clocks_.completed() : clocks_.slowest();
  if (clocks <= reached) return Serve(std::move(call));
  const size_t bytes = waiting_for_completion_.bytes() + waiting_for_closes_.bytes();
  if (bytes + call.bytes() > options_.parked_bytes) {
    return Refuse(call,
                  absl::ResourceExhaustedError(absl::StrCat(
                      "partition ", tables_->partition, " of job ", job().job_id(), " has ", bytes,
                      " bytes of waiting requests, at most ", options_.parked_bytes, " may")),
                  kRetryAfterMs);
  }
  parked.Park(clocks, std::move(call));
}

void Partition::ReleaseParked() {
  while (auto call = waiting_for_completion_.TakeReady(clocks_.completed())) {
    Serve(*std::move(call));
  }
  while (auto call = waiting_for_closes_.TakeReady(clocks_.slowest())) {
    Serve(*std::move(call));
  }
}

void Partition::Serve(AdmittedCall call) {
  const absl::Status status = CatchOutOfMemory("an answer", [&] {
    ServeKnown(call);
    return absl::OkStatus();
  });
  if (status.ok()) return;
  Fail(status.message());
  Refuse(call, closed_);
}

void Partition::ServeKnown(AdmittedCall& call) {
  if (call.cancelled() || options_.crash_point->crashed()) return;
  if (!closed_.ok()) return Refuse(call, closed_);
  // A later task of the slot may have come while it waited.
  const v1::ExchangeRequest& request = *call.call.request;
  if (absl::Status fenced =
          admission_.ledger().CheckIncarnation(request.slot(), request.incarnation());
      !fenced.ok()) {
    return Refuse(call, fenced);
  }
  switch (request.operation_case()) {
    case Operation::kDensePull:
      return ServeDensePull(call);
    case Operation::kSparsePull:
      return ServeSparsePull(call);
    case Operation::kCut:
      return ServeCut(call);
    default:
      return ServeClipNorms(call);
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

std::shared_ptr<std::byte> Partition::AnswerMemory(const ExchangeCall& call, size_t bytes) const {
  if (call.answer_memory != nullptr) {
    if (std::shared_ptr<std::byte> memory = call.answer_memory(bytes)) return memory;
  }
  const std::shared_ptr<float> memory =
      options_.pool->Take((bytes + sizeof(float) - 1) / sizeof(float));
  return {memory, reinterpret_cast<std::byte*>(memory.get())};
}

absl::StatusOr<Payload> Partition::Narrow(const ExchangeCall& call, const Payload& payload,
                                          DType type) const {
  return CatchOutOfMemory("the answer", [&]() -> absl::StatusOr<Payload> {
    return NarrowPayload(payload, type, [&](size_t bytes) { return AnswerMemory(call, bytes); });
  });
}

void Partition::ServeDensePull(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const absl::StatusOr<DenseTable::Version> version = VersionFor(request);
  if (!version.ok()) return Refuse(call, version.status());
  const Payload values = tables_->dense.Pull(request.dense_pull().first_block(),
                                             request.dense_pull().blocks(), *version);
  absl::StatusOr<Payload> payload =
      Narrow(call.call, values, *WireDType(request.dense_pull().type()));
  if (!payload.ok()) return Refuse(call, payload.status(), kNoMemoryRetryMs);
  Count(&ServedBytes::pulled, payload->size());
  Count(&ServedBytes::pulled_dense, payload->size());
  AnswerOk(call, *std::move(payload));
}

void Partition::ServeSparsePull(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const absl::StatusOr<DenseTable::Version> version = VersionFor(request);
  if (!version.ok()) return Refuse(call, version.status());
  const size_t table = request.sparse_pull().table() - 1;
  const size_t floats = call.chunk.keys.size() * tables_->sparse[table].dim();
  const DType type = *WireDType(request.sparse_pull().type());
  // What is narrowed is not the answer yet.
  const absl::StatusOr<std::shared_ptr<float>> taken =
      CatchOutOfMemory("the answer", [&]() -> absl::StatusOr<std::shared_ptr<float>> {
        if (type != DType::kF32) return options_.pool->Take(floats);
        const std::shared_ptr<std::byte> memory = AnswerMemory(call.call, floats * sizeof(float));
        return std::shared_ptr<float>(memory, reinterpret_cast<float*>(memory.get()));
      });
  if (!taken.ok()) return Refuse(call, taken.status(), kNoMemoryRetryMs);
  const std::shared_ptr<float>& values = *taken;
  if (absl::Status status = updater_.PullRows(table, call.chunk.keys, *version, clocks_.completed(),
                                              {values.get(), floats});
      !status.ok()) {
    NoteStored(status);
    return Refuse(call, closed_.ok() ? status : closed_);
  }
  const Payload::Span span(reinterpret_cast<const std::byte*>(values.get()),
                           floats * sizeof(float));
  absl::StatusOr<Payload> payload = Narrow(call.call, Payload({span}, values), type);
  if (!payload.ok()) {
    Refuse(call, payload.status(), kNoMemoryRetryMs);
  } else {
    Count(&ServedBytes::pulled, payload->size());
    AnswerOk(call, *std::move(payload));
  }
  NoteStored(TrimRows());
}

void Partition::ServeClipNorms(AdmittedCall& call) {
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

}  // namespace muster
