#ifndef MUSTER_COMMON_TOKENIZER_WORDS_EXPRESSION_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_EXPRESSION_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace muster {

// A word ends after so many bytes at the latest (whole code points), so that no text makes a word
// without bound.
inline constexpr size_t kLongestWord = size_t{1} << 16;

// Returns the last place in a text at which a code point begins, from `at` back.
// REQUIRES: `at` lies in the text or at its end.
size_t CodePointBefore(absl::string_view text, size_t at);

// A regular expression over code points, by PCRE2. Immutable, so thread-safe.
//
// The expression comes out of a file that anybody may have written, so matching is bounded: it
// sees kWindowBytes of text from a place on, takes a limited number of steps, and a limited depth
// and heap. Where it exceeds them, the next kLongestWord bytes are its match.
class Expression {
 public:
  static constexpr size_t kWindowBytes = 2 * kLongestWord;

  // InvalidArgument: PCRE2 refuses the expression; the message has its reason and the place, not
  // the expression.
  static absl::StatusOr<std::unique_ptr<const Expression>> Create(const std::string& pattern);
  ~Expression();

  // Returns whether what matches at a place may depend on the text before the place.
  bool looks_behind() const { return looks_behind_; }

 private:
  friend class ExpressionMatcher;

  explicit Expression(pcre2_real_code_8* code);

  pcre2_real_code_8* const code_;
  pcre2_real_match_context_8* const limits_;
  bool compiled_ = false;
  bool looks_behind_ = false;
};

// Finds the matches of an expression in texts, one text after another. Not thread-safe.
class ExpressionMatcher {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  // The expression must outlive the matcher.
  explicit ExpressionMatcher(const Expression& expression);
  ~ExpressionMatcher();

  ExpressionMatcher(const ExpressionMatcher&) = delete;
  ExpressionMatcher& operator=(const ExpressionMatcher&) = delete;

  // Sets the text for Find, which must stay as it is meanwhile. Bytes that are not UTF-8 count as
  // control characters, one each.
  void SetText(absl::string_view text);

  // Returns the first match that begins at `from` or behind it; it may be empty. Longer ones end
  // after kLongestWord bytes.
  std::optional<Match> Find(size_t from);

 private:
  // Searches the text from `from` up to `end`.
  std::optional<Match> FindWithin(size_t from, size_t end);

  const Expression& expression_;
  pcre2_real_match_data_8* const data_;
  absl::string_view text_;
  // The text, if it had to be changed.
  std::string changed_;
  // The last window is [window_begin_, window_end_). Behind a place before window_known_ it shows
  // so much that more would change no match.
  size_t window_begin_ = 0;
  size_t window_end_ = 0;
  size_t window_known_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_EXPRESSION_H_
