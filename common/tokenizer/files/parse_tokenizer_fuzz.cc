#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/fuzz/fuzz_check.h"
#include "common/tokenizer/files/parse_tokenizer.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.empty()) return 0;
  const auto tokenizer = ParseTokenizer(text, "tokenizer.json");
  if (!tokenizer.ok()) {
    FUZZ_CHECK(tokenizer.status().code() == absl::StatusCode::kInvalidArgument);
    // Nothing of the file is quoted.
    FUZZ_CHECK(tokenizer.status().message().size() < 1000);
    return 0;
  }
  const auto again = ParseTokenizer((*tokenizer)->json(), "what was written");
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK((*again)->json() == (*tokenizer)->json());
  FUZZ_CHECK((*again)->fingerprint() == (*tokenizer)->fingerprint());
  const absl::string_view sample = text.substr(size - size % 257);
  const std::vector<int32_t> tokens = EncodeAll(**tokenizer, sample);
  for (const int32_t token : tokens) {
    FUZZ_CHECK(token >= 0 && token < (*tokenizer)->vocabulary());
    (*tokenizer)->BytesOf(token);
  }
  FUZZ_CHECK(EncodeAll(**again, sample) == tokens);
  const size_t place = (*tokenizer)->SplitAfter(sample, sample.size() / 2);
  FUZZ_CHECK(place >= sample.size() / 2 && place <= sample.size());
  return 0;
}

}  // namespace muster
