#ifndef MUSTER_COMMON_TOKENIZER_WORDS_TRANSLATE_EXPRESSION_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_TRANSLATE_EXPRESSION_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns an expression of a tokenizer.json, which is in Oniguruma's Ruby syntax, in PCRE2's. They
// differ where an expression may have:
//
//   \s  White_Space, which PCRE2's \s is not (U+180E)
//   \w  Alphabetic, M, Nd and Pc
//   \v  U+000B alone
//   \uHHHH  a code point
//   [a[bc]] classes in classes, which are written out
//   {,n} from 0 to n
//
// InvalidArgument: the expression has what PCRE2 lacks or reads otherwise (classes that are
// intersections, intervals with a "+" behind them), or what no division into words needs
// (references to groups, names, verbs, anchors of the text). The message has the place, not the
// expression.
absl::StatusOr<std::string> TranslateExpression(absl::string_view expression);

// Returns the expression that finds this text.
std::string ExpressionOfText(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_TRANSLATE_EXPRESSION_H_
