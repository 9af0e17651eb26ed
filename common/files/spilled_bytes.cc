#include "common/files/spilled_bytes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/file_error.h"

namespace muster {
namespace {

constexpr size_t kSpillBytes = size_t{1} << 20;

}  // namespace

absl::Status SpilledBytes::KeepIn(std::unique_ptr<OutputFile> file, uint64_t bytes) {
  MUSTER_RETURN_IF_ERROR(file->Shorten(bytes));
  file_ = std::move(file);
  spilled_ = bytes;
  return ForEach([this](absl::string_view part) {
    fingerprint_.Add(part.data(), part.size());
    return absl::OkStatus();
  });
}

absl::Status SpilledBytes::Append(absl::string_view bytes) {
  fingerprint_.Add(bytes.data(), bytes.size());
  pending_.append(bytes.data(), bytes.size());
  if (pending_.size() < kSpillBytes) return absl::OkStatus();
  if (file_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(file_,
                            OutputFile::Create(absl::StrCat(beside_, ".spilled"), Replace::kFiles));
  }
  return WritePending();
}

absl::Status SpilledBytes::Flush() {
  MUSTER_RETURN_IF_ERROR(WritePending());
  return file_->Sync();
}

absl::Status SpilledBytes::WritePending() {
  MUSTER_RETURN_IF_ERROR(file_->Write(pending_));
  spilled_ += pending_.size();
  pending_.clear();
  return absl::OkStatus();
}

absl::Status SpilledBytes::ForEach(
    absl::FunctionRef<absl::Status(absl::string_view bytes)> take) const {
  if (file_ != nullptr) {
    const int descriptor = ::open(file_->partial().c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return FileError("read what was put aside for", beside_, errno);
    const absl::Cleanup close = [descriptor] { ::close(descriptor); };
    std::string part(kSpillBytes, '\0');
    for (uint64_t at = 0; at < spilled_;) {
      const size_t wanted = std::min<uint64_t>(part.size(), spilled_ - at);
      const ssize_t got = ::pread(descriptor, part.data(), wanted, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return FileError("read what was put aside for", beside_, got < 0 ? errno : EIO);
      MUSTER_RETURN_IF_ERROR(take({part.data(), static_cast<size_t>(got)}));
      at += static_cast<uint64_t>(got);
    }
  }
  return pending_.empty() ? absl::OkStatus() : take(pending_);
}

}  // namespace muster
