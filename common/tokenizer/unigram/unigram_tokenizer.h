#ifndef MUSTER_COMMON_TOKENIZER_UNIGRAM_UNIGRAM_TOKENIZER_H_
#define MUSTER_COMMON_TOKENIZER_UNIGRAM_UNIGRAM_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/words/added_token_finder.h"
#include "common/tokenizer/words/character_pairs.h"
#include "common/tokenizer/words/text_divider.h"
#include "common/tokenizer/words/text_rules.h"

namespace muster {

// The data of a unigram tokenizer. Its rules are over characters, not bytes.
struct UnigramVocabulary {
  // By id, as files write them; empty where an id has none.
  std::vector<std::string> tokens;
  // Logarithms of the tokens' probabilities; ids behind them are those of added tokens alone.
  std::vector<double> scores;
  // As BpeVocabulary::added.
  std::vector<AddedToken> added;
  TextRules rules;
  // Characters that are in no token become the tokens of their bytes, such as <0x0A>; without those
  // they become `unknown`, several beside each other one.
  bool byte_fallback = false;
  std::optional<int32_t> unknown;
};

// The unigram language model (Kudo 2018): of all ways to divide a word into tokens, takes the one
// with the largest sum of scores, found from left to right (Viterbi). A character that is no token
// scores 10 less than the worst token. A word of n bytes costs O(n · longest token).
class UnigramTokenizer final : public Tokenizer {
 public:
  // InvalidArgument: a token is twice in the vocabulary, an unknown character has no token, an
  // added token's id is another token's, a score is not finite; a rule is of an unsupported kind.
  static absl::StatusOr<std::unique_ptr<const UnigramTokenizer>> Create(
      UnigramVocabulary vocabulary);

  int64_t vocabulary() const override { return static_cast<int64_t>(vocabulary_.tokens.size()); }
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  absl::Span<const int32_t> before_document() const override {
    return divider_->rules().before_document;
  }
  void Encode(absl::string_view text, TextStart start,
              absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const override;
  size_t SplitAfter(absl::string_view text, size_t at) const override {
    return divider_->SplitAfter(text, at);
  }
  absl::string_view BytesOf(int32_t token) const override { return bytes_[token]; }
  const std::string& json() const override { return json_; }
  uint64_t fingerprint() const override { return fingerprint_; }

 private:
  // A place in the trie of tokens: the token that ends there, or -1.
  struct Node {
    int32_t token = -1;
  };

  explicit UnigramTokenizer(UnigramVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  // Does the rest of Create.
  absl::Status Index();
  absl::Status IndexTokens();
  absl::Status IndexUnknown();
  uint64_t FingerprintOf(const ReadTextRules& rules) const;
  // Returns the pairs of characters that tokens join.
  std::unique_ptr<const CharacterPairs> JoinedCharacters() const;
  // Replaces `tokens` by the tokens of a word.
  void EncodeWord(absl::string_view word, std::vector<int32_t>& tokens) const;
  void AppendUnknown(absl::string_view text, std::vector<int32_t>& tokens) const;

  // All const after Create.
  UnigramVocabulary vocabulary_;
  std::unique_ptr<const TextDivider> divider_;
  std::optional<int32_t> end_of_text_;
  std::string json_;
  uint64_t fingerprint_ = 0;
  std::vector<std::string> bytes_;
  std::vector<Node> nodes_;
  // The node behind a node and a byte, keyed by node << 8 | byte.
  absl::flat_hash_map<uint64_t, int32_t> next_;
  double unknown_score_ = 0;
  // Where a byte has no token, -1.
  int32_t byte_tokens_[256];
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_UNIGRAM_UNIGRAM_TOKENIZER_H_
