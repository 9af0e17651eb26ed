#include "common/tokenizer/tokenizer.h"

#include "absl/algorithm/container.h"

namespace muster {

bool IsBetweenDocuments(const Tokenizer& tokenizer, int32_t token) {
  return tokenizer.end_of_text() == token ||
         absl::c_linear_search(tokenizer.before_document(), token);
}

std::vector<int32_t> EncodeAll(const Tokenizer& tokenizer, absl::string_view text,
                               TextStart start) {
  std::vector<int32_t> all;
  tokenizer.Encode(text, start, [&all](absl::Span<const int32_t> tokens) {
    all.insert(all.end(), tokens.begin(), tokens.end());
  });
  return all;
}

}  // namespace muster
