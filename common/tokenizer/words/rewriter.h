#ifndef MUSTER_COMMON_TOKENIZER_WORDS_REWRITER_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_REWRITER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/tokenizer/words/expression.h"
#include "common/tokenizer/words/precompiled_map.h"

namespace muster {

// The place of what a rewriter is given: it begins a text, or goes on with one.
enum class TextPlace { kBegins, kGoesOn };

// Changes texts before they are divided into words: a list of steps, each of which takes what the
// one before it made. Bytes that are not UTF-8 stay as they are. Immutable, so thread-safe.
class Rewriter {
 public:
  // Unicode's normalization forms, by utf8proc.
  enum class Form { kNfc, kNfd, kNfkc, kNfkd };

  struct Replace {
    std::string from;
    std::string to;
  };

  struct ReplaceMatches {
    std::shared_ptr<const Expression> expression;
    std::string to;
  };

  // Puts a text in front of texts that are not empty and begin.
  struct Prepend {
    std::string text;
    // Not if it stands there already.
    bool unless_there = false;
  };

  // Removes white space at a text's ends.
  struct Strip {
    bool left = false;
    bool right = false;
  };

  using Step = std::variant<Form, Replace, ReplaceMatches, Prepend, Strip,
                            std::shared_ptr<const PrecompiledMap>>;

  void Add(Step step) { steps_.push_back(std::move(step)); }
  void Add(const Rewriter& other) {
    steps_.insert(steps_.end(), other.steps_.begin(), other.steps_.end());
  }
  bool empty() const { return steps_.empty(); }

  // Returns the text as the steps leave it. It may lie in `buffer`, or be the text given. What
  // would be far more text than was given is left as it is.
  absl::string_view Apply(absl::string_view text, TextPlace place, std::string& buffer) const;

  // Returns whether a text that is divided at a place that NextPlace returns becomes what its parts
  // become, if the second one goes on with the first one.
  bool keeps_divisions() const;

  // Returns the first place from `at` on, or the text's end, between two characters that the steps
  // do not change together. REQUIRES: `at` lies in the text.
  size_t NextPlace(absl::string_view text, size_t at) const;

  // Returns whether a text's beginning is changed otherwise than the rest.
  bool changes_beginnings() const;

 private:
  std::vector<Step> steps_;
};

// Returns whether a code point has the property White_Space.
bool IsWhiteSpace(uint32_t code_point);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_REWRITER_H_
