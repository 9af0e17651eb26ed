#ifndef MUSTER_COMMON_TOKENIZER_BPE_BPE_TOKENIZER_H_
#define MUSTER_COMMON_TOKENIZER_BPE_BPE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// All that makes a byte-level BPE tokenizer.
struct BpeVocabulary {
  struct AddedToken {
    int32_t id = 0;
    std::string content;
    // What other readers do with it, kept for them: leave a special one out when they decode, and
    // look for a normalized one in the text as their normalizer leaves it. Encodes alike here.
    bool special = true;
    bool normalized = false;
  };

  // The bytes of each token, by id; empty where an id has none.
  std::vector<std::string> tokens;
  // Pairs of tokens that become one, in the order they were learned.
  std::vector<std::pair<int32_t, int32_t>> merges;
  // Tokens that are found in the text as such, before it is cut into words. They are in `tokens`
  // too, where one may have the bytes of a token of the words: it is the one that encoding gives.
  std::vector<AddedToken> added;
};

// The 256 bytes under their own numbers and nothing learned: what ByteTokenizer is, for those who
// read files of vocabularies alone.
BpeVocabulary BytesAsVocabulary();

// The ids of its added tokens.
absl::flat_hash_set<int32_t> AddedIds(const BpeVocabulary& vocabulary);

// The names under which vocabularies keep the token that ends a document, most usual first.
absl::Span<const char* const> EndOfTextNames();

// The added token with the most usual of these names; none if there is no such token.
std::optional<int32_t> FindEndOfText(const BpeVocabulary& vocabulary);

// Tokenizer::fingerprint() of the vocabulary's tokenizer.
uint64_t VocabularyFingerprint(const BpeVocabulary& vocabulary);

// Byte-level byte-pair encoding (Sennrich, Haddow, Birch 2016, over bytes as in GPT-2, Radford et
// al. 2019). The text is cut at added tokens, then into words (pre_tokenizer.h); a word starts as
// its bytes, and of all neighbours that are a learned pair the one learned first (of these the
// leftmost) is joined, until there is none.
//
// Joining keeps the pairs of a word in a heap by (rank, place), so a word of n bytes costs
// O(n log n); words met before in one Encode come from a table.
class BpeTokenizer final : public Tokenizer {
 public:
  // InvalidArgument: a byte has no token, a merge names no token or makes none, two tokens of words
  // or two added ones have the same bytes, an added token is empty, or its id is another token's.
  static absl::StatusOr<std::unique_ptr<const BpeTokenizer>> Create(BpeVocabulary vocabulary);

  int64_t vocabulary() const override;
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  void Encode(absl::string_view text,
              absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const override;
  absl::string_view BytesOf(int32_t token) const override;
  const std::string& json() const override { return json_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  const BpeVocabulary& contents() const { return vocabulary_; }

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t token = 0;
  };
  // Words met before.
  class WordTable;

  explicit BpeTokenizer(BpeVocabulary vocabulary);

  // The rest of Create.
  absl::Status Index();
  // Finds each token's id by its bytes: that of words before an added one's.
  absl::StatusOr<absl::flat_hash_map<absl::string_view, int32_t>> IndexTokens() const;
  // The pair's merge; none if it was not learned.
  const Merge* Find(int32_t left, int32_t right) const;
  // Replaces `tokens` by those of a word.
  void EncodeWord(absl::string_view word, std::vector<int32_t>& tokens) const;
  // Encodes text without added tokens.
  void EncodePlain(absl::string_view text, WordTable& words, std::vector<int32_t>& pending,
                   absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const;

  // All const after Create.
  BpeVocabulary vocabulary_;
  std::optional<int32_t> end_of_text_;
  std::string json_;
  uint64_t fingerprint_ = 0;
  int32_t byte_tokens_[256];
  // By left << 32 | right.
  absl::flat_hash_map<uint64_t, Merge> merges_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_BPE_TOKENIZER_H_
