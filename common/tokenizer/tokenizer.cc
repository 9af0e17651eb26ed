#include "common/tokenizer/tokenizer.h"

namespace muster {

std::vector<int32_t> EncodeAll(const Tokenizer& tokenizer, absl::string_view text) {
  std::vector<int32_t> all;
  tokenizer.Encode(text, [&all](absl::Span<const int32_t> tokens) {
    all.insert(all.end(), tokens.begin(), tokens.end());
  });
  return all;
}

}  // namespace muster
