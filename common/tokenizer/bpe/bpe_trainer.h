#ifndef MUSTER_COMMON_TOKENIZER_BPE_BPE_TRAINER_H_
#define MUSTER_COMMON_TOKENIZER_BPE_BPE_TRAINER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct BpeVocabulary;

// Learns a byte-level BPE vocabulary. The text is cut into words (pre_tokenizer.h) and equal words
// are counted once; then, as long as the vocabulary has room, the most frequent pair of
// neighbouring tokens becomes a token (of equally frequent ones that with the smaller left, then
// right token; tokens learned earlier are smaller), and is joined wherever it stands, from the
// left. So the result is a pure function of the words' counts.
//
// Pairs wait in a heap by count. A join changes the counts of the pairs beside it alone, found by
// the list of words that each pair has been in; a count that shrank is noticed when its pair comes
// to the top. The cost is about O(text + joins of all words · log pairs), memory follows the
// distinct words.
//
// The vocabulary is: 256 bytes in the order of byte_level.h, the learned tokens in order, and
// "<|endoftext|>", which is learned from nowhere: where it stands in the text, the text is cut.
//
// Not thread-safe.
class BpeTrainer {
 public:
  // Bytes and the end-of-text alone.
  static constexpr int64_t kLeastVocabulary = 257;
  static constexpr int64_t kMostVocabulary = 1 << 20;

  // Counts a text's words.
  void Add(absl::string_view text);

  // At most `vocabulary` tokens, the end-of-text among them; fewer where no pair stands twice any
  // more. InvalidArgument: `vocabulary` is out of [kLeastVocabulary, kMostVocabulary].
  absl::StatusOr<BpeVocabulary> Train(int64_t vocabulary) const;

 private:
  absl::flat_hash_map<std::string, int64_t> words_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_BPE_TRAINER_H_
