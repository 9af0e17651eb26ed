#include "common/transport/data_channel/frame.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/transport/wire.h"

namespace muster {
namespace {

constexpr uint32_t kFrameMagic = 0x3146754d;  // "MuF1"
constexpr size_t kMaxGoodbyeBytes = 4096;

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

template <typename T>
void Store(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof(value));
}

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed frame on the data channel: ", what));
}

}  // namespace

void EncodeFrame(const Frame& frame, std::byte* out) {
  Store(kFrameMagic, out);
  Store(static_cast<uint8_t>(frame.kind), out + 4);
  Store(static_cast<uint8_t>(frame.place), out + 5);
  Store(uint16_t{0}, out + 6);
  Store(frame.header_bytes, out + 8);
  Store(frame.payload_bytes, out + 12);
}

absl::StatusOr<Frame> DecodeFrame(const std::byte* bytes) {
  if (const auto magic = Load<uint32_t>(bytes); magic != kFrameMagic) {
    return Malformed(absl::StrFormat("it starts with %08x, expected %08x", magic, kFrameMagic));
  }
  Frame frame;
  const auto kind = Load<uint8_t>(bytes + 4);
  const auto place = Load<uint8_t>(bytes + 5);
  frame.header_bytes = Load<uint32_t>(bytes + 8);
  frame.payload_bytes = Load<uint32_t>(bytes + 12);
  if (kind != static_cast<uint8_t>(FrameKind::kMessage) &&
      kind != static_cast<uint8_t>(FrameKind::kGoodbye)) {
    return Malformed(absl::StrCat("unknown kind ", kind));
  }
  if (place > static_cast<uint8_t>(PayloadPlace::kArena)) {
    return Malformed(absl::StrCat("unknown place ", place, " of the payload"));
  }
  if (Load<uint16_t>(bytes + 6) != 0) return Malformed("bytes 6 and 7 are not zero");
  if (frame.header_bytes > kMaxFrameHeaderBytes) {
    return Malformed(absl::StrCat("a header of ", frame.header_bytes, " bytes, at most ",
                                  kMaxFrameHeaderBytes, " are taken"));
  }
  if (frame.payload_bytes > kMaxFramePayloadBytes) {
    return Malformed(absl::StrCat("a payload of ", frame.payload_bytes, " bytes, at most ",
                                  kMaxFramePayloadBytes, " are taken"));
  }
  frame.kind = static_cast<FrameKind>(kind);
  frame.place = static_cast<PayloadPlace>(place);
  return frame;
}

std::string EncodeGoodbye(const absl::Status& reason) {
  WireWriter writer;
  writer.Number(static_cast<uint32_t>(reason.code()));
  const std::string message(reason.message());
  writer.Text(absl::string_view(message).substr(0, kMaxGoodbyeBytes));
  return writer.bytes();
}

absl::Status DecodeGoodbye(absl::string_view header) {
  WireReader reader(header);
  const auto code = reader.Number<uint32_t>();
  const std::string message = reader.Text();
  if (!reader.Done() || code == 0 || code > 16) {
    return absl::UnavailableError("the other end has closed the connection");
  }
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

}  // namespace muster
