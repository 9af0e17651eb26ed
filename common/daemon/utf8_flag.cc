#include "common/daemon/utf8_flag.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"

namespace muster {

absl::Status CheckIsUtf8(absl::string_view value) {
  if (IsUtf8(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(PrintableLine(value),
                   " is not UTF-8; names and paths that daemons tell one another have to be; "
                   "choose another, or rename the folder"));
}

CLI::Validator Utf8Flag() {
  return CLI::Validator(
      [](const std::string& value) { return std::string(CheckIsUtf8(value).message()); }, "");
}

}  // namespace muster
