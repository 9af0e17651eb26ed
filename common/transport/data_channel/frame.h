#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_FRAME_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// The form of a message on a data channel, all numbers little-endian:
//
//   0   u32  magic "MuF1"
//   4   u8   kind (FrameKind)
//   5   u8   payload place (PayloadPlace)
//   6   u16  zero
//   8   u32  bytes of the header
//   12  u32  bytes of the payload
//   16       the header, then the payload or where it is
//
// The header is a protobuf message whose `payload` field is empty; the channel does not look into
// it. On a socket the payload follows the header as it is. In shared memory it either does, when it
// is short, or fragments follow: u64 offset within the sender's arena and u64 length each, in the
// order of the payload's bytes, until they add up to its length.
namespace muster {

// Of the whole format: frames, shared memory and handshake.
inline constexpr uint32_t kChannelVersion = 2;

enum class FrameKind : uint8_t {
  kMessage = 1,
  // The last frame: a status, as EncodeGoodbye has it, in the header.
  kGoodbye = 2,
};

enum class PayloadPlace : uint8_t { kFollows = 0, kArena = 1 };

inline constexpr size_t kFrameBytes = 16;
// Longest header and payload that a receiver takes.
inline constexpr uint32_t kMaxFrameHeaderBytes = 1 << 20;
inline constexpr uint32_t kMaxFramePayloadBytes = 64 << 20;

struct Frame {
  FrameKind kind = FrameKind::kMessage;
  PayloadPlace place = PayloadPlace::kFollows;
  uint32_t header_bytes = 0;
  uint32_t payload_bytes = 0;
};

// Writes kFrameBytes.
void EncodeFrame(const Frame& frame, std::byte* out);

// Of kFrameBytes, which may be anything. InvalidArgument: no frame, or one over the limits; says
// which field is wrong and how.
absl::StatusOr<Frame> DecodeFrame(const std::byte* bytes);

// A status as a goodbye's header, and back; whatever the bytes, the result is an error.
std::string EncodeGoodbye(const absl::Status& reason);
absl::Status DecodeGoodbye(absl::string_view header);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_FRAME_H_
