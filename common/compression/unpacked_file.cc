#include "common/compression/unpacked_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/compression/gzip.h"
#include "common/compression/zstd.h"
#include "common/files/file_error.h"
#include "common/files/open_regular_file.h"

namespace muster {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;

}  // namespace

absl::StatusOr<std::unique_ptr<UnpackedFile>> UnpackedFile::Open(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const OpenedFile opened, OpenRegularFile(path));
  auto file = absl::WrapUnique(new UnpackedFile(path, opened.descriptor, opened.size));
  MUSTER_RETURN_IF_ERROR(file->Fill());
  if (IsGzip(file->rest_)) {
    MUSTER_ASSIGN_OR_RETURN(file->stream_, GunzipStream());
  } else if (IsZstd(file->rest_)) {
    MUSTER_ASSIGN_OR_RETURN(file->stream_, UnzstdStream());
  }
  return file;
}

UnpackedFile::UnpackedFile(std::string path, int descriptor, uint64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

UnpackedFile::~UnpackedFile() { close(descriptor_); }

absl::Status UnpackedFile::Fill() {
  buffer_.resize(kBufferBytes);
  ssize_t got = -1;
  do {
    got = read(descriptor_, buffer_.data(), buffer_.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) return FileError("read", path_, errno);
  buffer_.resize(static_cast<size_t>(got));
  rest_ = buffer_;
  read_ += buffer_.size();
  ended_ = buffer_.empty();
  return absl::OkStatus();
}

absl::StatusOr<size_t> UnpackedFile::Read(absl::Span<char> bytes) {
  size_t filled = 0;
  while (filled < bytes.size()) {
    if (rest_.empty() && !ended_) MUSTER_RETURN_IF_ERROR(Fill());
    if (stream_ == nullptr) {
      const size_t part = std::min(rest_.size(), bytes.size() - filled);
      if (part == 0) break;
      memcpy(bytes.data() + filled, rest_.data(), part);
      rest_.remove_prefix(part);
      filled += part;
      continue;
    }
    const auto progress = stream_->Unpack(rest_, bytes.subspan(filled));
    if (!progress.ok()) {
      return absl::Status(progress.status().code(),
                          absl::StrCat(path_, ": ", std::string(progress.status().message())));
    }
    rest_.remove_prefix(progress->taken);
    filled += progress->made;
    if (progress->made > 0 || !ended_) continue;
    if (stream_->whole()) break;
    return absl::DataLossError(
        absl::StrCat(path_, " is a compressed file that ends early, after ", read_,
                     " bytes; it was not copied or written whole, so get it again"));
  }
  return filled;
}

}  // namespace muster
