#include "common/tokenizer/tokenizer.h"

#include "absl/strings/str_cat.h"

namespace muster {

std::vector<int32_t> EncodeAll(const Tokenizer& tokenizer, absl::string_view text) {
  std::vector<int32_t> all;
  tokenizer.Encode(text, [&all](absl::Span<const int32_t> tokens) {
    all.insert(all.end(), tokens.begin(), tokens.end());
  });
  return all;
}

std::string Decode(const Tokenizer& tokenizer, absl::Span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) absl::StrAppend(&text, tokenizer.BytesOf(token));
  return text;
}

}  // namespace muster
