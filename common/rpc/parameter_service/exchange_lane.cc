#include "common/rpc/parameter_service/exchange_lane.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_status.h"
#include "proto/parameter_service.pb.h"

namespace muster {

absl::Status CheckMessageBytes(const v1::ExchangeRequest& request, int64_t bytes) {
  if (bytes <= kMaxMessageBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("exchange of ", bytes, " bytes with partition ", request.partition(), " of job ",
                   request.job_id(), " is over the limit of ", kMaxMessageBytes,
                   " bytes a message; send fewer blocks or rows at a time"));
}

absl::Status TooManyQueued(int64_t queued_bytes, int64_t limit, const std::string& address) {
  return absl::ResourceExhaustedError(
      absl::StrCat(queued_bytes, " bytes wait to be sent to server ", address, ", the limit is ",
                   limit, "; wait for answers first"));
}

absl::StatusOr<ExchangeResult> ToExchangeResult(std::shared_ptr<v1::ExchangeReply> reply,
                                                Payload payload) {
  if (reply->code() == 0) return ExchangeResult{std::move(reply), std::move(payload)};
  absl::Status status = FromCode(reply->code(), reply->message());
  if (reply->retry_after_ms() == 0) return status;
  return WithRetryAfter(std::move(status), absl::Milliseconds(reply->retry_after_ms()));
}

}  // namespace muster
