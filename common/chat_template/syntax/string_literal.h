#ifndef MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_STRING_LITERAL_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_STRING_LITERAL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Replaces Python's escapes in what is between a string's quotes. Fails for \N{...}, for halves of
// surrogate pairs, which are no characters, and for a backslash before one that is not ASCII.
absl::StatusOr<std::string> Unescape(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_STRING_LITERAL_H_
