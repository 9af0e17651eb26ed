#include "common/tokenizer/for_each_text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/text_files.h"
#include "common/tokenizer/token_file.h"

namespace muster {

absl::Status ForEachText(const std::string& path,
                         absl::FunctionRef<absl::Status(FileContent file)> take) {
  return ForEachTextFile(path, [&](const std::string& file_path, FileContent file) {
    if (IsTokenFile(file.bytes())) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_path, " is a token file, which is no text; keep it apart from text"));
    }
    return take(std::move(file));
  });
}

}  // namespace muster
