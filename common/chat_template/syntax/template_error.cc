#include "common/chat_template/syntax/template_error.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/chat_template/values/python_text.h"

namespace muster {

absl::Status TemplateError(absl::string_view source, size_t offset, absl::string_view message) {
  const absl::string_view before = source.substr(0, std::min(offset, source.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t begin = before.rfind('\n');
  const absl::string_view in_line =
      begin == absl::string_view::npos ? before : before.substr(begin + 1);
  return absl::InvalidArgumentError(absl::StrCat("chat template, line ", line, ", column ",
                                                 CountCharacters(in_line) + 1, ": ", message));
}

}  // namespace muster
