#include <cstddef>
#include <cstdint>
#include <string>

#include "common/fuzz/fuzz_check.h"
#include "common/transport/answer.h"
#include "common/transport/data_channel/channel_handshake.h"

namespace muster {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto hello = ChannelHello::Parse(bytes);
  if (hello.ok()) FUZZ_CHECK(absl::string_view(hello->Serialize()) == bytes);
  const auto answer = DecodeAnswer(bytes);
  if (answer.ok()) {
    FUZZ_CHECK(absl::string_view(EncodeAnswer(absl::OkStatus(), *answer)) == bytes);
  } else {
    FUZZ_CHECK(DecodeAnswer(EncodeAnswer(answer.status())).status() == answer.status());
  }
  return 0;
}

}  // namespace muster
