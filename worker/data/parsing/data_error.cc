#include "worker/data/parsing/data_error.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace muster {

std::string Quote(absl::string_view value) {
  constexpr size_t kShown = 40;
  return absl::StrCat("'", absl::CHexEscape(value.substr(0, kShown)),
                      value.size() > kShown ? "…'" : "'");
}

absl::Status LineError(absl::string_view path, int64_t line, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", message));
}

}  // namespace muster
