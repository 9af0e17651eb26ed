#include "common/rpc/rpc_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/lost_state.h"
#include "grpcpp/support/status.h"

namespace muster {
namespace {

constexpr char kRetryAfterPayload[] = "muster.RetryAfterMs";

// A loss, as a status' details on the wire.
constexpr char kServerStateDetails[] = "muster.LostState: server state";
constexpr char kCheckpointDetails[] = "muster.LostState: checkpoint";

LostState LostStateOfDetails(const std::string& details) {
  if (details == kServerStateDetails) return LostState::kServerState;
  return details == kCheckpointDetails ? LostState::kCheckpoint : LostState::kNone;
}

std::string DetailsOf(LostState lost) {
  switch (lost) {
    case LostState::kServerState:
      return kServerStateDetails;
    case LostState::kCheckpoint:
      return kCheckpointDetails;
    case LostState::kNone:
      break;
  }
  return "";
}

}  // namespace

absl::Status FromCode(int code, absl::string_view message) {
  if (code == 0) return absl::OkStatus();
  if (code < 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return absl::UnknownError(absl::StrCat("status code ", code, ": ", message));
  }
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

absl::Status FromGrpc(const grpc::Status& status) {
  return WithLostState(FromCode(status.error_code(), status.error_message()),
                       LostStateOfDetails(status.error_details()));
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()),
                      DetailsOf(LostStateOf(status)));
}

absl::Status WithRetryAfter(absl::Status status, absl::Duration wait) {
  status.SetPayload(kRetryAfterPayload, absl::Cord(absl::StrCat(absl::ToInt64Milliseconds(wait))));
  return status;
}

absl::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryAfterPayload);
  int64_t wait_ms;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &wait_ms)) {
    return absl::nullopt;
  }
  return absl::Milliseconds(wait_ms);
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

}  // namespace muster
