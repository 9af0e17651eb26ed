#ifndef MUSTER_COMMON_RPC_PARAMETER_SERVICE_EXCHANGE_LANE_H_
#define MUSTER_COMMON_RPC_PARAMETER_SERVICE_EXCHANGE_LANE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/payload.h"
#include "common/rpc/parameter_service/parameter_client.h"

namespace muster {

// One ordered way to one server: a gRPC stream or a data channel. Thread-safe.
//
// A lane that broke stays broken. Messages go out in the order of the calls. Pushes count against a
// window until they are answered. Other calls do not: the server may park them until other slots,
// or later messages of this lane, come, and a window full of parked calls would never empty.
class ExchangeLane {
 public:
  struct Limits {
    int64_t window_bytes;
    int64_t max_queued_bytes;
  };

  // Aborts, then blocks until every `done` has returned. Not to be called from one.
  virtual ~ExchangeLane() = default;

  // Behaves like ParameterClient's CallInto or, with an empty `landing`, like its Call.
  virtual void Call(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
                    ParameterClient::Done done) = 0;
  virtual void Abort(absl::Status reason) = 0;
  // Behaves like ParameterClient's.
  virtual void SetWaiting(bool) {}
};

// Refusals of a call that is over the limit of a message or finds too many bytes waiting, and the
// result of a server's answer, for all lanes.
absl::Status CheckMessageBytes(const v1::ExchangeRequest& request, int64_t bytes);
absl::Status TooManyQueued(int64_t queued_bytes, int64_t limit, const std::string& address);
absl::StatusOr<ExchangeResult> ToExchangeResult(std::shared_ptr<v1::ExchangeReply> reply,
                                                Payload payload);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_PARAMETER_SERVICE_EXCHANGE_LANE_H_
