#ifndef MUSTER_COMMON_TOKENIZER_WORDS_TEXT_DIVIDER_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_TEXT_DIVIDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/words/added_token_finder.h"
#include "common/tokenizer/words/character_pairs.h"
#include "common/tokenizer/words/rewriter.h"
#include "common/tokenizer/words/text_rules.h"
#include "common/tokenizer/words/word_splitter.h"

namespace muster {

// Divides texts into what a vocabulary is applied to, in this order: at added tokens that are found
// in the text as it is; the text between them is normalized; at added tokens of normalized text;
// what is left begins as the rules say, and is divided into words. Immutable, so thread-safe.
//
// A word has at most kLongestWord bytes; longer ones are cut between characters. This is the only
// difference from what others make of the same rules.
class TextDivider {
 public:
  struct Piece {
    // A word, or the content of an added token.
    absl::string_view text;
    // The added token, null for words.
    const AddedToken* added = nullptr;
    // True if the text may be divided behind it, as WordSplitter::Word says.
    bool divides = false;
  };

  // With `pairs`, words are divided wherever no token of the vocabulary goes on.
  TextDivider(ReadTextRules rules, std::vector<AddedToken> added,
              std::unique_ptr<const CharacterPairs> pairs);

  TextDivider(const TextDivider&) = delete;
  TextDivider& operator=(const TextDivider&) = delete;

  const ReadTextRules& rules() const { return rules_; }

  // Calls `visit` with the text's pieces in order.
  void ForEachPiece(absl::string_view text, TextStart start,
                    absl::FunctionRef<void(const Piece& piece)> visit) const;

  // Returns what Tokenizer::SplitAfter does.
  size_t SplitAfter(absl::string_view text, size_t at) const;

 private:
  // Returns a place that divides a text between two added tokens; nothing if none is known.
  // REQUIRES: `at` lies in the text.
  std::optional<size_t> SplitSegment(absl::string_view text, size_t at) const;
  // The same, of a place before `end`, knowing the text up to there.
  std::optional<size_t> SplitBefore(absl::string_view text, size_t at, size_t end) const;
  // Divides text without added tokens that are found in it as it is.
  void DivideSegment(absl::string_view text, TextPlace place, WordSplitter::Run& run,
                     absl::FunctionRef<void(const Piece& piece)> visit) const;
  void DivideWord(const WordSplitter::Word& word,
                  absl::FunctionRef<void(const Piece& piece)> visit) const;
  TextPlace BehindAdded() const {
    return rules_.only_first ? TextPlace::kGoesOn : TextPlace::kBegins;
  }

  const ReadTextRules rules_;
  const std::vector<AddedToken> added_;
  const std::unique_ptr<const CharacterPairs> pairs_;
  // Const after the constructor.
  AddedTokenFinder of_text_;
  AddedTokenFinder of_normalized_;
  bool can_divide_ = false;
  // True if text is divided between a letter of ASCII and a space behind it, whatever else it is.
  bool divides_before_spaces_ = false;
  // True if the text is changed before it is divided, and if its beginning is changed otherwise
  // than the rest.
  bool changes_text_ = false;
  bool begins_otherwise_ = false;
};

// Returns what divides text into GPT-2's words:
//
//   's | 't | 're | 've | 'm | 'll | 'd | ?letters+ | ?numbers+ | ?others+ | spaces
//
// The first form that fits at a place is taken, as long as it goes; "?" is one optional U+0020
// before it. Spaces go as far as they reach, but leave their last one to the word after them (which
// takes it as its "?" if it is U+0020). Letters and numbers are Unicode's categories L and N,
// spaces its property White_Space; a byte that is no UTF-8 counts as other.
//
// Example: "I'll see  2 dogs!" is cut into "I", "'ll", " see", " ", " 2", " dogs", "!".
std::unique_ptr<const TextDivider> Gpt2Words();

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_TEXT_DIVIDER_H_
