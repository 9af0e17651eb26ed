#ifndef MUSTER_COMMON_TOKENIZER_WORDS_CHARACTER_PAIRS_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_CHARACTER_PAIRS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

namespace muster {

// The pairs of characters that stand beside each other in some token of a vocabulary. Between
// others no merge joins anything, so a text may be divided there. Pairs are told apart by a hash,
// so some more count as being in a token, which costs time alone.
class CharacterPairs {
 public:
  CharacterPairs() : bits_(kBits / 64) {}

  // Adds the pairs of a token.
  void Add(absl::string_view token);

  // Two characters that are not known are a pair, too: no token has them, and they may become one
  // token for what is unknown. Known are those that are the whole of a token.
  void JoinOthers() { joins_others_ = true; }
  // Makes the token's character known, if it has only one.
  void AddKnown(absl::string_view token);

  bool Contains(uint32_t left, uint32_t right) const {
    const size_t bit = BitOf(left, right);
    if ((bits_[bit / 64] >> (bit % 64) & 1) != 0) return true;
    return joins_others_ && !known_.contains(left) && !known_.contains(right);
  }

 private:
  static constexpr int kLogBits = 20;
  static constexpr size_t kBits = size_t{1} << kLogBits;

  static size_t BitOf(uint32_t left, uint32_t right) {
    const uint64_t pair = uint64_t{left} << 32 | right;
    return pair * 0x9e3779b97f4a7c15u >> (64 - kLogBits);
  }

  std::vector<uint64_t> bits_;
  bool joins_others_ = false;
  absl::flat_hash_set<uint32_t> known_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_CHARACTER_PAIRS_H_
