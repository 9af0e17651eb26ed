#include "common/rpc/rpc_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/lost_state.h"
#include "common/text/utf8.h"
#include "grpcpp/support/status.h"

namespace muster {
namespace {

constexpr char kRetryAfterPayload[] = "muster.RetryAfterMs";

// A loss, as a status's details on the wire.
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

// Returns advice on a connection that failed for its certificates, as far as gRPC's words tell.
absl::string_view Advice(const std::string& message) {
  const auto says = [&message](const char* words) { return absl::StrContains(message, words); };
  if (says("wrong version number")) {
    return " (the other end speaks plain text and this one TLS: give --tls-authority, "
           "--tls-certificate and --tls-key to both or to none)";
  }
  if (says("certificate verify failed")) {
    return " (the other end's certificate does not come from the authority in --tls-authority, or "
           "has expired)";
  }
  if (says("is not in peer certificate")) {
    return " (its certificate must name the host of the address under which it is called)";
  }
  if (says("failed to connect to all addresses") &&
      (says("Socket closed") || says("Connection reset"))) {
    return " (it hung up at once; where it is under TLS, this end needs --tls-authority, "
           "--tls-certificate and --tls-key of the same cluster, and a certificate that has not "
           "expired)";
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
  std::string message = status.error_message();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    absl::StrAppend(&message, Advice(message));
  }
  return WithLostState(FromCode(status.error_code(), message),
                       LostStateOfDetails(status.error_details()));
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), ToUtf8(status.message()),
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
