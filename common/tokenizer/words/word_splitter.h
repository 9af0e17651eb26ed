#ifndef MUSTER_COMMON_TOKENIZER_WORDS_WORD_SPLITTER_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_WORD_SPLITTER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/words/expression.h"
#include "common/tokenizer/words/rewriter.h"

namespace muster {

// Divides text into words before a vocabulary is applied, so that no token crosses them: a list of
// stages, each of which divides the pieces that the one before it made. Immutable, so thread-safe.
class WordSplitter {
 public:
  // Says what becomes of a match and of the text between matches.
  enum class Behavior {
    // Each is a piece.
    kIsolated,
    // The text between matches is pieces, matches are left out.
    kRemoved,
    // Neighbouring matches are one piece.
    kContiguous,
    // A match belongs to the text before it, or to the text behind it.
    kMergedWithPrevious,
    kMergedWithNext,
  };

  struct Split {
    std::shared_ptr<const Expression> expression;
    Behavior behavior = Behavior::kIsolated;
    // The text between matches counts as matches, and the other way round.
    bool inverted = false;
    // Known of the expression: it matches all text, and no match goes on from a letter of ASCII to
    // a space behind it.
    bool ends_before_spaces = false;
  };

  // A word of a text, and whether the text may be divided behind the word: a division that begins
  // there goes on as this one, as far as words do not look behind them.
  struct Word {
    absl::string_view text;
    bool divides = false;
    // No stage has matched it, so the text may be divided within it, too.
    bool unmatched = false;
  };

  void Add(Split split) { stages_.push_back(std::move(split)); }
  // Pieces are changed; of a text's only the first one goes on with what stands before the text.
  void Add(Rewriter rewriter) { stages_.push_back(std::move(rewriter)); }
  bool empty() const { return stages_.empty(); }

  // Returns whether Word::divides may be relied on: words do not depend on what stands before them.
  bool can_divide() const;
  // Returns whether any text may be divided between a letter of ASCII and a space behind it.
  bool divides_before_spaces() const;

  // Divides texts; what is needed for that is kept from one to the next. Not thread-safe.
  class Run {
   public:
    // The splitter must outlive the run.
    explicit Run(const WordSplitter& splitter);
    ~Run();

    // Calls `visit` with the text's words in order. They lie in the text, unless a stage changes
    // text.
    void ForEachWord(absl::string_view text, TextPlace place,
                     absl::FunctionRef<void(const Word& word)> visit);

   private:
    class Stage;

    void Divide(size_t stage, Word piece, TextPlace place,
                absl::FunctionRef<void(const Word& word)> visit);

    const WordSplitter& splitter_;
    // A matcher per stage, null for stages without expressions.
    std::vector<std::unique_ptr<ExpressionMatcher>> matchers_;
  };

 private:
  std::vector<std::variant<Split, Rewriter>> stages_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_WORD_SPLITTER_H_
