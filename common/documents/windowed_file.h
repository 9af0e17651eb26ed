#ifndef MUSTER_COMMON_DOCUMENTS_WINDOWED_FILE_H_
#define MUSTER_COMMON_DOCUMENTS_WINDOWED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// A regular file of any size, a window of which is in memory: for files that are read nearly in
// order. Not thread-safe.
class WindowedFile {
 public:
  // Most bytes that are read at once.
  static constexpr size_t kBytes = size_t{1} << 20;

  // Errors are OpenRegularFile's (common/files/open_regular_file.h).
  static absl::StatusOr<std::unique_ptr<WindowedFile>> Open(const std::string& path);
  ~WindowedFile();

  WindowedFile(const WindowedFile&) = delete;
  WindowedFile& operator=(const WindowedFile&) = delete;

  const std::string& path() const { return path_; }
  // When the file was opened.
  uint64_t size() const { return size_; }

  // Returns bytes [offset, offset + count), valid until the next call. DataLoss: the file has
  // become shorter. Other errors: it could not be read. Both name the path.
  // REQUIRES: count <= kBytes; the range lies within size().
  absl::StatusOr<absl::string_view> Read(uint64_t offset, size_t count);

 private:
  WindowedFile(std::string path, int descriptor, uint64_t size);

  const std::string path_;
  const int descriptor_;
  const uint64_t size_;
  uint64_t begin_ = 0;
  std::string window_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_WINDOWED_FILE_H_
