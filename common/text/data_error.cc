#include "common/text/data_error.h"

#include "absl/strings/str_cat.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"

namespace muster {

std::string Quote(absl::string_view value) {
  constexpr size_t kShown = 40;
  return absl::StrCat("'", PrintableLine(CutUtf8(value, kShown)),
                      value.size() > kShown ? "…'" : "'");
}

absl::Status LineError(absl::string_view path, int64_t line, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", message));
}

}  // namespace muster
