#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/fuzz/fuzz_check.h"
#include "common/transport/data_channel/frame.h"

namespace muster {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (size >= kFrameBytes) {
    const auto frame = DecodeFrame(reinterpret_cast<const std::byte*>(data));
    if (frame.ok()) {
      FUZZ_CHECK(frame->header_bytes <= kMaxFrameHeaderBytes);
      FUZZ_CHECK(frame->payload_bytes <= kMaxFramePayloadBytes);
      std::byte again[kFrameBytes];
      EncodeFrame(*frame, again);
      FUZZ_CHECK(std::memcmp(again, data, kFrameBytes) == 0);
    } else {
      FUZZ_CHECK(frame.status().code() == absl::StatusCode::kInvalidArgument);
    }
  }
  const absl::Status reason = DecodeGoodbye(bytes.substr(0, 4096));
  FUZZ_CHECK(!reason.ok());
  FUZZ_CHECK(DecodeGoodbye(EncodeGoodbye(reason)) == reason);
  return 0;
}

}  // namespace muster
