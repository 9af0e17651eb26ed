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
#include "common/tokenizer/words/added_token_finder.h"
#include "common/tokenizer/words/character_pairs.h"
#include "common/tokenizer/words/text_divider.h"
#include "common/tokenizer/words/text_rules.h"

namespace muster {

// The data of a BPE tokenizer, over bytes or over characters, as its rules say.
struct BpeVocabulary {
  using AddedToken = muster::AddedToken;

  // By id; empty where an id has none. The bytes of each token, or its text as files write it if
  // tokens are characters.
  std::vector<std::string> tokens;
  // Pairs of tokens that become one, in the order they were learned.
  std::vector<std::pair<int32_t, int32_t>> merges;
  // Tokens that are found in the text as such, before the text is divided into words. They are in
  // `tokens`, too. If an added token has the bytes of a token of the words, encoding gives the
  // added one.
  std::vector<AddedToken> added;
  TextRules rules;
  // Tokens are bytes, as the rules say; otherwise they are characters.
  bool byte_level = true;
  // A word that is a token is not made of merges, but taken as it is.
  bool ignores_merges = false;
  // Vocabularies of characters: a character that is no token becomes its bytes' tokens, such as
  // <0x0A>; without those it becomes `unknown`, or one for several beside each other.
  bool byte_fallback = false;
  bool fuses_unknown = false;
  std::optional<int32_t> unknown;
};

// Returns the 256 bytes under their own numbers and nothing learned. This is ByteTokenizer, for
// readers that only know vocabulary files.
BpeVocabulary BytesAsVocabulary();

// Returns the ids of the vocabulary's added tokens.
absl::flat_hash_set<int32_t> AddedIds(const BpeVocabulary& vocabulary);

// Returns Tokenizer::fingerprint() of the vocabulary's tokenizer.
uint64_t VocabularyFingerprint(const BpeVocabulary& vocabulary);

// Byte-pair encoding (Sennrich, Haddow, Birch 2016), over bytes as in GPT-2 (Radford et al. 2019)
// or over characters. The text is divided into words (words/text_divider.h). A word starts as its
// bytes or characters. Then, as long as some neighbours are a learned pair, the pair learned first
// is joined, the leftmost one if it occurs several times.
//
// The pairs of a long word are kept in a heap by (rank, place), so a word of n bytes costs
// O(n log n).
// Words met before in one Encode are looked up in a table. Texts of tokenizers that do not divide
// into words are divided wherever no token joins two characters.
class BpeTokenizer final : public Tokenizer {
 public:
  // InvalidArgument: a byte or an unknown character has no token, a merge names no token or makes
  // none, two tokens of words or two added ones have the same bytes, an added token is empty, or
  // its id is another token's; a rule is of an unsupported kind.
  static absl::StatusOr<std::unique_ptr<const BpeTokenizer>> Create(BpeVocabulary vocabulary);

  int64_t vocabulary() const override;
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  absl::Span<const int32_t> before_document() const override;
  void Encode(absl::string_view text, TextStart start,
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

  explicit BpeTokenizer(BpeVocabulary vocabulary);

  // Does the rest of Create.
  absl::Status Index();
  // Maps each token's text to its id; a token of words has priority over an added one.
  absl::Status IndexTokens();
  absl::Status IndexMerges();
  absl::Status CheckAdded() const;
  // Finds the tokens of bytes.
  absl::Status IndexBytes();
  bool IsToken(int32_t id) const;
  // Returns the pairs of characters that tokens join; null if there may be others.
  std::unique_ptr<const CharacterPairs> JoinedCharacters() const;
  // Returns the pair's merge, or null if the pair was not learned.
  const Merge* Find(int32_t left, int32_t right) const;
  // Replaces `tokens` by what a word starts as.
  void Start(absl::string_view word, std::vector<int32_t>& tokens) const;
  // Joins the tokens that a short word starts as, without a heap.
  void JoinShort(std::vector<int32_t>& tokens) const;
  // Replaces `tokens` by the tokens of a word.
  void EncodeWord(absl::string_view word, std::vector<int32_t>& tokens) const;

  // All const after Create.
  BpeVocabulary vocabulary_;
  std::unique_ptr<const TextDivider> divider_;
  std::optional<int32_t> end_of_text_;
  std::string json_;
  uint64_t fingerprint_ = 0;
  // Where a byte has no token, -1.
  int32_t byte_tokens_[256];
  bool has_byte_tokens_ = false;
  // The bytes of tokens, if they are not the tokens' texts.
  std::vector<std::string> bytes_;
  absl::flat_hash_map<absl::string_view, int32_t> ids_;
  // Keyed by left << 32 | right.
  absl::flat_hash_map<uint64_t, Merge> merges_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_BPE_TOKENIZER_H_
