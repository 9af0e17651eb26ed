#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_FRAME_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// A frame, the form of a message on a data channel. All numbers are little-endian:
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
// it. On a socket the payload's bytes follow the header. In shared memory those of a short payload
// do so too; for a longer one a list of fragments follows, each a u64 offset within the sender's
// arena and a u64 length, in the payload's order, until the lengths add up to the payload's.
namespace muster {

// Version of the whole format: frames, shared memory and handshake.
inline constexpr uint32_t kChannelVersion = 2;

enum class FrameKind : uint8_t {
  kMessage = 1,
  // The last frame. Its header holds a status, as EncodeGoodbye writes it.
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

// Writes kFrameBytes bytes.
void EncodeFrame(const Frame& frame, std::byte* out);

// Parses kFrameBytes untrusted bytes. InvalidArgument: no frame, or one over the limits; the
// message says which field is wrong and how.
absl::StatusOr<Frame> DecodeFrame(const std::byte* bytes);

// Convert a status to a goodbye's header and back; DecodeGoodbye returns an error in any case.
std::string EncodeGoodbye(const absl::Status& reason);
absl::Status DecodeGoodbye(absl::string_view header);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_FRAME_H_
