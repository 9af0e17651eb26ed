#include "common/base/lost_state.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/types/optional.h"

namespace muster {
namespace {

constexpr char kLostStatePayload[] = "muster.LostState";
constexpr char kServerState[] = "server state";
constexpr char kCheckpoint[] = "checkpoint";

}  // namespace

absl::Status WithLostState(absl::Status status, LostState lost) {
  if (status.ok() || lost == LostState::kNone || LostStateOf(status) != LostState::kNone)
    return status;
  status.SetPayload(kLostStatePayload,
                    absl::Cord(lost == LostState::kServerState ? kServerState : kCheckpoint));
  return status;
}

LostState LostStateOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kLostStatePayload);
  if (!payload.has_value()) return LostState::kNone;
  if (*payload == kServerState) return LostState::kServerState;
  return *payload == kCheckpoint ? LostState::kCheckpoint : LostState::kNone;
}

absl::Status DataLossIs(absl::Status status, LostState lost) {
  return absl::IsDataLoss(status) ? WithLostState(std::move(status), lost) : status;
}

}  // namespace muster
