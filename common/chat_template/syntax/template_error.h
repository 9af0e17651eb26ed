#ifndef MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TEMPLATE_ERROR_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TEMPLATE_ERROR_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns InvalidArgument "chat template, line 3, column 14: message"; columns count characters.
absl::Status TemplateError(absl::string_view source, size_t offset, absl::string_view message);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_TEMPLATE_ERROR_H_
