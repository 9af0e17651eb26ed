#include "server/shard/service/exchange_limits.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "common/text/utf8.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/service/message_budget.h"

namespace muster {

void ExchangeCounters::Save(const char* kind, v1::ChannelStats& stats) const {
  stats.set_kind(kind);
  stats.set_connections(static_cast<uint32_t>(std::max<int64_t>(0, connections.load())));
  stats.set_requests(requests.load());
  stats.set_bytes_received(bytes_received.load());
  stats.set_bytes_sent(bytes_sent.load());
}

v1::ExchangeReply ErrorReply(const absl::Status& status) {
  v1::ExchangeReply reply;
  reply.set_code(static_cast<int>(status.code()));
  reply.set_message(ToUtf8(status.message()));
  return reply;
}

absl::Status CheckParked(int64_t parked_bytes, int64_t bytes, const ExchangeLimits& limits) {
  if (parked_bytes == 0 || parked_bytes + bytes <= limits.parked_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("operations with ", parked_bytes,
                   " bytes of this connection wait for their clock, the limit is ",
                   limits.parked_bytes, "; wait for answers first"));
}

absl::Status NoRoomToWait(int64_t bytes, const MessageBudget& budget) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the operation has ", bytes, " bytes; operations that wait for their clock leave ",
      std::max<int64_t>(0, budget.left()), " of the server's ", budget.limit(),
      " bytes for them, and a connection gets only a part of that; try again"));
}

absl::Status NoRoomToCopy(int64_t bytes, const MessageBudget& budget) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the push has ", bytes,
                   " bytes, which the server may have to copy; messages under way leave ",
                   std::max<int64_t>(0, budget.left()), " of the server's ", budget.limit(),
                   " bytes for them, and a connection gets only a part of that; try again"));
}

v1::ExchangeReply NoRoomReply(int64_t bytes, const MessageBudget& budget) {
  v1::ExchangeReply reply = ErrorReply(absl::ResourceExhaustedError(
      absl::StrCat("the answer needs ", bytes, " bytes; messages under way leave ",
                   std::max<int64_t>(0, budget.left()), " of the server's ", budget.limit(),
                   " bytes for them, and a connection gets only a part of that; receive answers, "
                   "then ask again")));
  reply.set_retry_after_ms(kParkedRetryAfterMs);
  return reply;
}

absl::Status CheckAnswerBytes(uint64_t bytes) {
  if (bytes <= static_cast<uint64_t>(kMaxMessageBytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the answer has ", bytes, " bytes, the limit is ", kMaxMessageBytes,
                   " a message; pull fewer blocks or rows at a time"));
}

}  // namespace muster
