#ifndef MUSTER_COMMON_RPC_RPC_STATUS_H_
#define MUSTER_COMMON_RPC_RPC_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace grpc {
class Status;
}  // namespace grpc

namespace muster {

// Convert statuses from and to their forms on the wire and in replies. All three forms number codes
// alike; an unknown number becomes UNKNOWN. Over gRPC a noted loss (common/base/lost_state.h) goes
// along. If TLS refused the connection, FromGrpc adds what to do about it.
absl::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromCode(int code, absl::string_view message);

// Add and return how long to wait before repeating a refused operation, which a RESOURCE_EXHAUSTED
// answer carries beside its status.
absl::Status WithRetryAfter(absl::Status status, absl::Duration wait);
absl::optional<absl::Duration> RetryAfter(const absl::Status& status);

// Returns the status with "`context`: " before its message. Keeps code and retry time; OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_RPC_STATUS_H_
