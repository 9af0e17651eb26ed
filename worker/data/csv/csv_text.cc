#include "worker/data/csv/csv_text.h"

#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/compression/gzip.h"
#include "common/files/check_is_text.h"
#include "common/text/byte_order_mark.h"

namespace muster {

absl::string_view CsvText::bytes() const { return SkipByteOrderMark(content()); }

absl::StatusOr<CsvText> CsvText::Open(const std::string& path, const FileContentOptions& options) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.csv.path is the folder '", path, "'; name its files by a pattern, such as '", path,
        absl::EndsWith(path, "/") ? "" : "/", "*.csv'"));
  }
  CsvText text(path);
  MUSTER_ASSIGN_OR_RETURN(FileContent file, FileContent::Open(path, options));
  if (IsGzip(file.bytes())) {
    absl::StatusOr<std::string> unpacked = Gunzip(file.bytes(), std::numeric_limits<size_t>::max());
    if (!unpacked.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "CSV file '", path, "': ", unpacked.status().message(), "; pack or copy it again"));
    }
    text.unpacked_ = *std::move(unpacked);
  } else {
    text.file_ = std::move(file);
  }
  const absl::string_view bytes = text.bytes();
  if (bytes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Data file '", path, "' is empty; it needs at least one example, check its origin"));
  }
  MUSTER_RETURN_IF_ERROR(CheckIsText(path, bytes));
  return text;
}

}  // namespace muster
