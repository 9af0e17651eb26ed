#include "common/documents/windowed_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/file_error.h"
#include "common/files/open_regular_file.h"

namespace muster {

absl::StatusOr<std::unique_ptr<WindowedFile>> WindowedFile::Open(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const OpenedFile file, OpenRegularFile(path));
  return absl::WrapUnique(new WindowedFile(path, file.descriptor, file.size));
}

WindowedFile::WindowedFile(std::string path, int descriptor, uint64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

WindowedFile::~WindowedFile() { close(descriptor_); }

absl::StatusOr<absl::string_view> WindowedFile::Read(uint64_t offset, size_t count) {
  if (offset < begin_ || offset + count > begin_ + window_.size()) {
    begin_ = offset;
    window_.resize(std::min<uint64_t>(kBytes, size_ - offset));
    size_t filled = 0;
    while (filled < window_.size()) {
      const ssize_t got = pread(descriptor_, window_.data() + filled, window_.size() - filled,
                                static_cast<off_t>(offset + filled));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        window_.clear();
        return FileError("read", path_, errno);
      }
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    window_.resize(filled);
    if (filled < count) {
      return absl::DataLossError(absl::StrCat(path_, " ends at byte ", offset + filled,
                                              ", but had ", size_, " when it was opened; do not ",
                                              "change it while it is read"));
    }
  }
  return absl::string_view(window_).substr(offset - begin_, count);
}

}  // namespace muster
