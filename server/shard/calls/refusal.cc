#include "server/shard/calls/refusal.h"

#include <string>

#include "common/base/catch_out_of_memory.h"
#include "common/text/utf8.h"
#include "proto/parameter_service.pb.h"

namespace muster {

v1::ExchangeReply Refusal(const v1::ExchangeRequest& request, const absl::Status& status,
                          uint32_t retry_after_ms) {
  v1::ExchangeReply reply;
  reply.set_request_id(request.request_id());
  reply.set_code(static_cast<int>(status.code()));
  reply.set_retry_after_ms(retry_after_ms);
  CatchOutOfMemory("an error's message", [&] {
    reply.set_message(ToUtf8(status.message()));
    return absl::OkStatus();
  }).IgnoreError();
  return reply;
}

void Refuse(const ExchangeCall& call, const absl::Status& status, uint32_t retry_after_ms) {
  call.done(Refusal(*call.request, status, retry_after_ms), Payload());
}

}  // namespace muster
