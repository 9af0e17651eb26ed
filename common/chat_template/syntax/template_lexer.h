#ifndef MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TEMPLATE_LEXER_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TEMPLATE_LEXER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct TemplateToken {
  enum class Kind {
    // Text between tags, as it is printed.
    kText,
    kPrintBegin,
    kPrintEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    // `text` has the escapes replaced.
    kString,
    kInteger,
    kFloat,
    // `text` is the sign.
    kSign,
    // After the last.
    kEnd,
  };

  Kind kind = Kind::kEnd;
  // In the source.
  size_t offset = 0;
  std::string text;
  int64_t integer = 0;
  double number = 0;
};

// Returns the template as Jinja reads it: ends of lines are \n, and the last one is left out.
std::string NormalizedTemplate(absl::string_view text);

// Cuts a normalized template into tokens, the last of which is kEnd. Whitespace around tags goes as
// with Jinja's trim_blocks and lstrip_blocks: a line end after a block's tag, and spaces before one
// that begins a line; '-' at a tag takes all whitespace on its side, '+' none. Comments go, and
// what is between raw and endraw is text.
absl::StatusOr<std::vector<TemplateToken>> LexTemplate(absl::string_view source);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TEMPLATE_LEXER_H_
