#include <cstddef>
#include <cstdint>
#include <string>

#include "common/compression/gzip.h"
#include "common/fuzz/fuzz_check.h"

namespace muster {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr size_t kLimit = size_t{1} << 20;
  constexpr size_t kShort = 10;
  const auto content = Gunzip(bytes, kLimit);
  if (!content.ok()) {
    FUZZ_CHECK(content.status().code() == absl::StatusCode::kDataLoss);
    FUZZ_CHECK(content.status().message().size() < 200);
    return 0;
  }
  FUZZ_CHECK(IsGzip(bytes));
  FUZZ_CHECK(content->size() <= kLimit);
  const auto start = Gunzip(bytes, kShort);
  FUZZ_CHECK(start.ok() && *start == content->substr(0, kShort));
  return 0;
}

}  // namespace muster
