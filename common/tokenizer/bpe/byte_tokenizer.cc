#include "common/tokenizer/bpe/byte_tokenizer.h"

#include <algorithm>
#include <array>

#include "common/tokenizer/bpe/bpe_tokenizer.h"

namespace muster {

ByteTokenizer::ByteTokenizer() : fingerprint_(VocabularyFingerprint(BytesAsVocabulary())) {
  for (int64_t byte = 0; byte < kVocabulary; ++byte) bytes_.push_back(static_cast<char>(byte));
}

void ByteTokenizer::Encode(absl::string_view text, TextStart /*start*/,
                           absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const {
  std::array<int32_t, 4096> tokens;
  while (!text.empty()) {
    const absl::string_view part = text.substr(0, tokens.size());
    std::transform(part.begin(), part.end(), tokens.begin(),
                   [](char byte) { return static_cast<unsigned char>(byte); });
    sink(absl::MakeConstSpan(tokens.data(), part.size()));
    text.remove_prefix(part.size());
  }
}

absl::string_view ByteTokenizer::BytesOf(int32_t token) const {
  return absl::string_view(bytes_).substr(token, 1);
}

}  // namespace muster
