#include "common/files/file_content.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/open_regular_file.h"

namespace muster {
namespace {

absl::Status SystemError(absl::string_view what, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(what, " data file '", path, "'"));
}

}  // namespace

absl::StatusOr<FileContent> FileContent::Open(const std::string& path,
                                              const FileContentOptions& options) {
  if (path.empty()) {
    return absl::InvalidArgumentError("The data's path is empty; name a file");
  }
  const absl::StatusOr<OpenedFile> opened =
      options.named_by == FileContentOptions::NamedBy::kThisProgram
          ? OpenRegularFileWithin(nullptr, path)
          : OpenRegularFile(path);
  if (absl::IsNotFound(opened.status())) {
    return absl::NotFoundError(absl::StrCat(
        "Data path '", path, "' does not exist on this machine; correct the path, or put the data ",
        "in the same place on every machine that runs a worker"));
  }
  MUSTER_RETURN_IF_ERROR(opened.status());
  const int file = opened->descriptor;
  const auto closer = absl::MakeCleanup([file] { close(file); });
  const size_t size = opened->size;
  FileContent content;
  if (size > 0 && size >= options.map_from_bytes) {
    void* const map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (map == MAP_FAILED) return SystemError("Mapping", path, errno);
    content.map_ = map;
    content.map_bytes_ = size;
    return content;
  }
  // The file may be shorter by now. Bytes that it has grown by are not read: growth might not end.
  size_t filled = 0;
  content.copy_.resize(size);
  while (filled < size) {
    const ssize_t got = read(file, content.copy_.data() + filled, size - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("Reading", path, errno);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  content.copy_.resize(filled);
  return content;
}

FileContent::FileContent(FileContent&& other) noexcept
    : copy_(std::move(other.copy_)),
      map_(std::exchange(other.map_, nullptr)),
      map_bytes_(std::exchange(other.map_bytes_, 0)) {}

FileContent& FileContent::operator=(FileContent&& other) noexcept {
  std::swap(copy_, other.copy_);
  std::swap(map_, other.map_);
  std::swap(map_bytes_, other.map_bytes_);
  return *this;
}

FileContent::~FileContent() {
  if (map_ != nullptr) munmap(map_, map_bytes_);
}

absl::string_view FileContent::bytes() const {
  if (map_ != nullptr) return absl::string_view(static_cast<const char*>(map_), map_bytes_);
  return copy_;
}

absl::StatusOr<FileContent> OpenNonEmpty(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileContent content, FileContent::Open(path));
  if (content.bytes().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Data file '", path, "' is empty; training needs at least one example, check its origin"));
  }
  return content;
}

}  // namespace muster
