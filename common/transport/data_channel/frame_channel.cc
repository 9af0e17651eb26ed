#include "common/transport/data_channel/frame_channel.h"

namespace muster {
namespace {

absl::Status NothingIsRegistered() {
  return absl::InvalidArgumentError("a range of registered memory, but the client has none here");
}

}  // namespace

absl::StatusOr<Payload> FrameChannel::ReadRegistered(uint64_t, uint64_t) {
  return NothingIsRegistered();
}

absl::StatusOr<std::shared_ptr<std::byte>> FrameChannel::WriteRegistered(uint64_t, uint64_t) {
  return NothingIsRegistered();
}

}  // namespace muster
