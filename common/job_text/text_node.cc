#include "common/job_text/text_node.h"

#include "absl/strings/str_cat.h"

namespace muster {

absl::Status TextError(absl::string_view origin, const TextPosition& position,
                       absl::string_view message) {
  if (position.line == 0) return absl::InvalidArgumentError(absl::StrCat(origin, ": ", message));
  return absl::InvalidArgumentError(
      absl::StrCat(origin, ":", position.line, ":", position.column, ": ", message));
}

}  // namespace muster
