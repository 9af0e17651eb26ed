#include "server/shard/partition/answers/read_server.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/partition/wire_dtype.h"
#include "common/trace/trace_scope.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/calls/refusal.h"
#include "server/shard/calls/typed_payload.h"

namespace muster {

using Operation = v1::ExchangeRequest::OperationCase;

void ReadServer::Serve(AdmittedCall& call) {
  const TraceScope trace(ActionKind::kServePull, call.call.request->clock(), 0);
  switch (call.call.request->operation_case()) {
    case Operation::kDensePull:
      return ServeDensePull(call);
    case Operation::kSparsePull:
      return ServeSparsePull(call);
    case Operation::kEnter:
      return ServeEntry(call);
    default:
      return ServeClipNorms(call);
  }
}

absl::StatusOr<DenseTable::Version> ReadServer::VersionFor(
    const v1::ExchangeRequest& request) const {
  const uint64_t clock = request.clock();
  if (!context_.job().keeps_previous() || clock >= context_.clocks.completed()) {
    return DenseTable::Version::kCurrent;
  }
  if (clock + 1 == context_.clocks.completed() && applier_.updater().previous_kept())
    return DenseTable::Version::kPrevious;
  return context_.answers.Gone(
      request, absl::StrCat("pull at clock ", clock, " from partition ", context_.tables.partition,
                            " of job ", context_.job().job_id(),
                            " refused: repeated clocks read what they have read before, and those "
                            "values are not kept at clock ",
                            context_.clocks.completed(), "; go back to a checkpoint"));
}

std::shared_ptr<std::byte> ReadServer::AnswerMemory(const ExchangeCall& call, size_t bytes) const {
  if (call.answer_memory != nullptr) {
    if (std::shared_ptr<std::byte> memory = call.answer_memory(bytes)) return memory;
  }
  const std::shared_ptr<float> memory =
      context_.pool.Take((bytes + sizeof(float) - 1) / sizeof(float));
  return {memory, reinterpret_cast<std::byte*>(memory.get())};
}

absl::StatusOr<Payload> ReadServer::Narrow(const ExchangeCall& call, const Payload& payload,
                                           DType type) const {
  return CatchOutOfMemory("the answer", [&]() -> absl::StatusOr<Payload> {
    return NarrowPayload(payload, type, [&](size_t bytes) { return AnswerMemory(call, bytes); });
  });
}

void ReadServer::ServeDensePull(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const absl::StatusOr<DenseTable::Version> version = VersionFor(request);
  if (!version.ok()) return context_.answers.Refuse(call, version.status());
  const Payload values = context_.tables.dense.Pull(request.dense_pull().first_block(),
                                                    request.dense_pull().blocks(), *version);
  absl::StatusOr<Payload> payload =
      Narrow(call.call, values, *WireDType(request.dense_pull().type()));
  if (!payload.ok()) return context_.answers.Refuse(call, payload.status(), kNoMemoryRetryMs);
  CountServed(served_, &ServedBytes::pulled, payload->size());
  CountServed(served_, &ServedBytes::pulled_dense, payload->size());
  v1::ExchangeReply reply;
  if (const auto& loss_scale = context_.loss_scale.current(); loss_scale.has_value()) {
    *reply.mutable_loss_scale() = *loss_scale;
  }
  context_.answers.Answer(call, std::move(reply), *std::move(payload));
}

void ReadServer::ServeSparsePull(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const absl::StatusOr<DenseTable::Version> version = VersionFor(request);
  if (!version.ok()) return context_.answers.Refuse(call, version.status());
  const size_t table = request.sparse_pull().table() - 1;
  const size_t floats = call.chunk.keys.size() * context_.tables.sparse[table].dim();
  const DType type = *WireDType(request.sparse_pull().type());
  // The values are not the answer before they are narrowed.
  const absl::StatusOr<std::shared_ptr<float>> taken =
      CatchOutOfMemory("the answer", [&]() -> absl::StatusOr<std::shared_ptr<float>> {
        if (type != DType::kF32) return context_.pool.Take(floats);
        const std::shared_ptr<std::byte> memory = AnswerMemory(call.call, floats * sizeof(float));
        return std::shared_ptr<float>(memory, reinterpret_cast<float*>(memory.get()));
      });
  if (!taken.ok()) return context_.answers.Refuse(call, taken.status(), kNoMemoryRetryMs);
  const std::shared_ptr<float>& values = *taken;
  if (absl::Status status = applier_.updater().PullRows(
          table, call.chunk.keys, *version, context_.clocks.completed(), {values.get(), floats});
      !status.ok()) {
    applier_.rows().Note(status);
    return context_.answers.Refuse(call, context_.health.ok() ? status : context_.health.status());
  }
  const Payload::Span span(reinterpret_cast<const std::byte*>(values.get()),
                           floats * sizeof(float));
  absl::StatusOr<Payload> payload = Narrow(call.call, Payload({span}, values), type);
  if (!payload.ok()) {
    context_.answers.Refuse(call, payload.status(), kNoMemoryRetryMs);
  } else {
    CountServed(served_, &ServedBytes::pulled, payload->size());
    context_.answers.AnswerOk(call, *std::move(payload));
  }
  applier_.rows().Note(applier_.rows().Trim());
}

void ReadServer::ServeEntry(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const ClockEntries& entries = context_.entries;
  const absl::Span<const uint32_t> left_out = entries.LeftOut(request.clock());
  v1::ExchangeReply reply;
  reply.set_already_applied(call.already_applied);
  reply.mutable_left_out()->Assign(left_out.begin(), left_out.end());
  // Nothing else is known of an earlier clock.
  if (left_out.empty() && !entries.HasEntered(request.slot(), request.clock())) {
    reply.add_left_out(request.slot());
  }
  reply.set_fastest_clock(entries.decided());
  context_.answers.Answer(call, std::move(reply), Payload());
}

void ReadServer::ServeClipNorms(AdmittedCall& call) {
  const uint64_t clock = call.call.request->clock();
  if (clock + 1 < context_.clocks.completed()) {
    return context_.answers.Refuse(
        call, context_.answers.Gone(
                  *call.call.request,
                  absl::StrCat("norms of clock ", clock, " on partition ",
                               context_.tables.partition, " of job ", context_.job().job_id(),
                               " are not kept at clock ", context_.clocks.completed())));
  }
  call.already_applied = clock < context_.clocks.completed();
  const std::string& norms =
      call.already_applied ? applier_.last_clip_norms() : applier_.ClipNorms();
  context_.answers.AnswerOk(
      call, Payload::Copy({reinterpret_cast<const std::byte*>(norms.data()), norms.size()}));
}

}  // namespace muster
