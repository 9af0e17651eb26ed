#ifndef MUSTER_COMMON_TOKENIZER_BPE_BPE_TRAINER_H_
#define MUSTER_COMMON_TOKENIZER_BPE_BPE_TRAINER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/words/text_divider.h"

namespace muster {

struct BpeVocabulary;

// Learns a byte-level BPE vocabulary. The text is divided into words (Gpt2Words), and equal
// words are counted once. Then, as long as the vocabulary has room, the most frequent pair of
// neighbouring tokens becomes a token, and the pair is joined wherever it occurs, from the left. Of
// equally frequent pairs the one with the smaller left, then right token is taken; tokens learned
// earlier are smaller. So the result is a pure function of the words' counts.
//
// Pairs wait in a heap by count. A join changes only the counts of the pairs beside it, found by
// the list of words that each pair has been in; a count that shrank is noticed when its pair comes
// to the top. The cost is about O(text + joins of all words · log pairs); memory grows with the
// number of distinct words.
//
// The vocabulary is: 256 bytes in the order of byte_level.h, the learned tokens in order, and
// "<|endoftext|>". The latter is not learned: the text is divided where it occurs.
//
// Not thread-safe.
class BpeTrainer {
 public:
  // Size of a vocabulary of the bytes and the end-of-text alone.
  static constexpr int64_t kLeastVocabulary = 257;
  static constexpr int64_t kMostVocabulary = 1 << 20;

  BpeTrainer();

  // Counts a text's words.
  void Add(absl::string_view text);

  // Returns at most `vocabulary` tokens, the end-of-text among them; fewer if no pair occurs twice
  // any more. InvalidArgument: `vocabulary` is out of [kLeastVocabulary, kMostVocabulary].
  absl::StatusOr<BpeVocabulary> Train(int64_t vocabulary) const;

 private:
  const std::unique_ptr<const TextDivider> divider_;
  absl::flat_hash_map<std::string, int64_t> words_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_BPE_TRAINER_H_
