#ifndef MUSTER_WORKER_DATA_CSV_CSV_TEXT_H_
#define MUSTER_WORKER_DATA_CSV_CSV_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/files/file_content.h"

namespace muster {

// The text of a CSV file, unpacked if it is gzip. Movable. Immutable, so thread-safe.
class CsvText {
 public:
  // NotFound: no file is there. InvalidArgument: the path is a folder's, or the file is empty, no
  // text or damaged gzip. All name the path.
  static absl::StatusOr<CsvText> Open(const std::string& path,
                                      const FileContentOptions& options = {});

  const std::string& path() const { return path_; }

  // Return the text with and without a byte-order mark. Valid until this object moves.
  absl::string_view content() const {
    return file_.has_value() ? file_->bytes() : absl::string_view(unpacked_);
  }
  absl::string_view bytes() const;

 private:
  explicit CsvText(const std::string& path) : path_(path) {}

  std::string path_;
  absl::optional<FileContent> file_;
  std::string unpacked_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_TEXT_H_
