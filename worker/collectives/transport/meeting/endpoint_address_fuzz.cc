#include <cstddef>
#include <cstdint>
#include <string>

#include "common/fuzz/fuzz_check.h"
#include "worker/collectives/transport/meeting/endpoint_address.h"

namespace muster {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto address = EndpointAddress::Parse(bytes);
  if (address.ok()) {
    FUZZ_CHECK(absl::string_view(address->Serialize()) == bytes);
  } else {
    FUZZ_CHECK(address.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(address.status().message().size() < 200);
  }
  return 0;
}

}  // namespace muster
