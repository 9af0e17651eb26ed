#include "common/tokenizer/words/character_pairs.h"

#include "common/text/utf8.h"

namespace muster {

void CharacterPairs::Add(absl::string_view token) {
  if (token.empty()) return;
  CodePoint left = FirstCodePoint(token);
  while (token.size() > left.bytes) {
    token.remove_prefix(left.bytes);
    const CodePoint right = FirstCodePoint(token);
    const size_t bit = BitOf(left.value, right.value);
    bits_[bit / 64] |= uint64_t{1} << (bit % 64);
    left = right;
  }
}

void CharacterPairs::AddKnown(absl::string_view token) {
  if (token.empty()) return;
  const CodePoint first = FirstCodePoint(token);
  if (first.bytes == token.size()) known_.insert(first.value);
}

}  // namespace muster
