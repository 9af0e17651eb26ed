#include "client/cluster/exit_code.h"

#include "absl/strings/cord.h"

namespace muster {
namespace {

constexpr char kNoCoordinatorPayload[] = "muster.NoCoordinator";

}  // namespace

absl::Status NoCoordinatorError(absl::string_view message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kNoCoordinatorPayload, absl::Cord());
  return status;
}

ExitCode ExitCodeFor(const absl::Status& status) {
  if (status.GetPayload(kNoCoordinatorPayload).has_value()) return kUnreachable;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kSuccess;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return kUsage;
    default:
      return kFailure;
  }
}

}  // namespace muster
