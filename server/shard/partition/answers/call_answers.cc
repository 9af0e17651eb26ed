#include "server/shard/partition/answers/call_answers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/calls/refusal.h"

namespace muster {

void CallAnswers::Answer(AdmittedCall& call, v1::ExchangeReply reply, Payload payload) const {
  const auto done = std::exchange(call.call.done, nullptr);
  if (done == nullptr) return;
  reply.set_request_id(call.call.request->request_id());
  reply.set_slowest_clock(clocks_.completed());
  reply.set_fastest_clock(clocks_.fastest());
  done(std::move(reply), std::move(payload));
}

void CallAnswers::AnswerOk(AdmittedCall& call, Payload payload) const {
  v1::ExchangeReply reply;
  reply.set_already_applied(call.already_applied);
  Answer(call, std::move(reply), std::move(payload));
}

void CallAnswers::Refuse(AdmittedCall& call, const absl::Status& status,
                         uint32_t retry_after_ms) const {
  if (call.call.done == nullptr) return;
  // A connection that finds no memory to send it ends itself. The other calls are answered.
  CatchOutOfMemory("a refusal", [&] {
    Answer(call, Refusal(*call.call.request, status, retry_after_ms), Payload());
    return absl::OkStatus();
  }).IgnoreError();
}

absl::Status CallAnswers::Gone(const v1::ExchangeRequest& request,
                               absl::string_view message) const {
  // A task that takes a slot over repeats at most the last clock which the slot has closed here.
  const uint64_t closed = clocks_.slot(request.slot()).closed;
  if (request.clock() + 1 < closed) {
    return absl::AbortedError(absl::StrCat(message, "; slot ", request.slot(),
                                           " itself has closed ", closed,
                                           " clocks here: it was restarted, rejoin"));
  }
  return absl::FailedPreconditionError(message);
}

}  // namespace muster
