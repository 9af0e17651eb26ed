#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "common/fuzz/fuzz_check.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/decode_for_testing.h"

namespace muster {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  auto vocabulary = ParseBpeJson(text, "tokenizer.json");
  if (!vocabulary.ok()) {
    FUZZ_CHECK(vocabulary.status().code() == absl::StatusCode::kInvalidArgument);
    // Nothing of the file is quoted.
    FUZZ_CHECK(vocabulary.status().message().size() < 1000);
    return 0;
  }
  const auto tokenizer = BpeTokenizer::Create(*std::move(vocabulary));
  if (!tokenizer.ok()) {
    FUZZ_CHECK(tokenizer.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(tokenizer.status().message().size() < 1000);
    return 0;
  }
  auto written = ParseBpeJson((*tokenizer)->json(), "what was written");
  FUZZ_CHECK(written.ok());
  const auto again = BpeTokenizer::Create(*std::move(written));
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK((*again)->json() == (*tokenizer)->json());
  FUZZ_CHECK((*again)->fingerprint() == (*tokenizer)->fingerprint());
  const absl::string_view sample = text.substr(size - size % 257);
  FUZZ_CHECK(absl::string_view(Decode(**tokenizer, EncodeAll(**tokenizer, sample))) == sample);
  return 0;
}

}  // namespace muster
