#include "client/commands/arguments/text_output.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/output_file.h"

namespace muster {

namespace fs = std::filesystem;

absl::Status CheckOutputIsNoText(const std::string& data, const std::string& out) {
  // A missing file is equivalent to nothing; reading or writing it reports the error.
  std::error_code error;
  if (fs::equivalent(data, out, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out ", out, " is the text to read; choose another --out"));
  }
  // Through links: where it is going to lie.
  MUSTER_ASSIGN_OR_RETURN(const std::string target, OutputTarget(out, Replace::kFiles));
  if (fs::equivalent(data, fs::absolute(target, error).parent_path(), error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out ", out, " is inside ", data,
                     ", and every file there is read as text; choose another folder for --out"));
  }
  return absl::OkStatus();
}

}  // namespace muster
