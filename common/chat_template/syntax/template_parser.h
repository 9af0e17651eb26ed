#ifndef MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TEMPLATE_PARSER_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TEMPLATE_PARSER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/syntax/syntax_tree.h"
#include "common/chat_template/values/chat_template_limits.h"

namespace muster {

// Parses a template, and refuses what is not in the subset by its name, line and column.
absl::StatusOr<SyntaxTree> ParseTemplate(absl::string_view text, const ChatTemplateLimits& limits);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TEMPLATE_PARSER_H_
