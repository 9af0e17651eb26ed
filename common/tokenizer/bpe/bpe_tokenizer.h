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

// The data of a byte-level BPE tokenizer.
struct BpeVocabulary {
  struct AddedToken {
    int32_t id = 0;
    std::string content;
    // Kept for other readers, which leave a special token out when they decode, and look for a
    // normalized token in the text as their normalizer leaves it. Neither changes how Muster
    // encodes.
    bool special = true;
    bool normalized = false;
  };

  // The bytes of each token, by id; empty where an id has none.
  std::vector<std::string> tokens;
  // Pairs of tokens that become one, in the order they were learned.
  std::vector<std::pair<int32_t, int32_t>> merges;
  // Tokens that are found in the text as such, before the text is divided into words. They are in
  // `tokens`, too. If an added token has the bytes of a token of the words, encoding gives the
  // added one.
  std::vector<AddedToken> added;
};

// Returns the 256 bytes under their own numbers and nothing learned. This is ByteTokenizer, for
// readers that only know vocabulary files.
BpeVocabulary BytesAsVocabulary();

// Returns the ids of the vocabulary's added tokens.
absl::flat_hash_set<int32_t> AddedIds(const BpeVocabulary& vocabulary);

// Returns the names under which vocabularies keep the token that ends a document, most usual first.
absl::Span<const char* const> EndOfTextNames();

// Returns the added token with the most usual of these names, or nothing if there is none.
std::optional<int32_t> FindEndOfText(const BpeVocabulary& vocabulary);

// Returns Tokenizer::fingerprint() of the vocabulary's tokenizer.
uint64_t VocabularyFingerprint(const BpeVocabulary& vocabulary);

// Byte-level byte-pair encoding (Sennrich, Haddow, Birch 2016, over bytes as in GPT-2, Radford et
// al. 2019). The text is divided at added tokens, then into words (pre_tokenizer.h). A word starts
// as its bytes. Then, as long as some neighbours are a learned pair, the pair learned first is
// joined, the leftmost one if it occurs several times.
//
// The pairs of a word are kept in a heap by (rank, place), so a word of n bytes costs O(n log n).
// Words met before in one Encode are looked up in a table.
class BpeTokenizer final : public Tokenizer {
 public:
  // InvalidArgument: a byte has no token, a merge names no token or makes none, two tokens of words
  // or two added ones have the same bytes, an added token is empty, or its id is another token's.
  static absl::StatusOr<std::unique_ptr<const BpeTokenizer>> Create(BpeVocabulary vocabulary);

  int64_t vocabulary() const override;
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  void Encode(absl::string_view text,
              absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const override;
  size_t SplitAfter(absl::string_view text, size_t at) const override;
  absl::string_view BytesOf(int32_t token) const override;
  const std::string& json() const override { return json_; }
  uint64_t fingerprint() const override { return fingerprint_; }

  const BpeVocabulary& contents() const { return vocabulary_; }

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t token = 0;
  };
  // Table of the words met before.
  class WordTable;

  explicit BpeTokenizer(BpeVocabulary vocabulary);

  // Does the rest of Create.
  absl::Status Index();
  // Maps each token's bytes to its id; a token of words has priority over an added one.
  absl::StatusOr<absl::flat_hash_map<absl::string_view, int32_t>> IndexTokens() const;
  // Returns the pair's merge, or null if the pair was not learned.
  const Merge* Find(int32_t left, int32_t right) const;
  // Returns whether an added token stands in the text across a place.
  bool HasAddedAcross(absl::string_view text, size_t at) const;
  // Replaces `tokens` by the tokens of a word.
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
  // Keyed by left << 32 | right.
  absl::flat_hash_map<uint64_t, Merge> merges_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_BPE_TOKENIZER_H_
