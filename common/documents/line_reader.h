#ifndef MUSTER_COMMON_DOCUMENTS_LINE_READER_H_
#define MUSTER_COMMON_DOCUMENTS_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/compression/unpacked_file.h"

namespace muster {

// Longest line of a file of documents.
inline constexpr size_t kMostLineBytes = size_t{32} << 20;

// The lines of a text file, which may be compressed (common/compression/unpacked_file.h, whose
// errors these are, with the number of the line). Not thread-safe.
class LineReader {
 public:
  static absl::StatusOr<std::unique_ptr<LineReader>> Open(const std::string& path);

  // Reads the next line into `line`, without its end; valid until the next call. Returns false at
  // the end. A byte-order mark at the beginning is left out. InvalidArgument, with file and line: a
  // line is longer than kMostLineBytes.
  absl::StatusOr<bool> Next(absl::string_view& line);

  // The number of the last line, counted from 1.
  int64_t line() const { return line_; }
  // Returns whether the last line had an end.
  bool ended() const { return ended_; }
  // See UnpackedFile.
  uint64_t bytes_read() const { return file_->bytes_read(); }

 private:
  LineReader(std::string path, std::unique_ptr<UnpackedFile> file);

  const std::string path_;
  const std::unique_ptr<UnpackedFile> file_;
  std::string buffer_;
  // The next line begins here in buffer_.
  size_t next_ = 0;
  int64_t line_ = 0;
  bool ended_ = true;
  bool at_end_ = false;
};

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_LINE_READER_H_
