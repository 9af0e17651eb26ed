#include "common/transport/shared_memory/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/aligned_range.h"
#include "common/base/huge_memory.h"
#include "common/base/round_up.h"
#include "common/transport/system_error.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace muster {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status Exhausted(size_t bytes, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat("shared memory of ", bytes, " bytes: ", SystemError("memfd", error).message(),
                   "; give the process more memory, or use fewer or smaller communicators"));
}

}  // namespace

absl::StatusOr<SharedRegion> SharedRegion::Create(size_t bytes, Pages pages) {
  Descriptor descriptor(
      memfd_create(absl::StrCat(kName, getpid()).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.valid()) return Exhausted(bytes, errno);
  if (ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0) {
    return Exhausted(bytes, errno);
  }
  return MapShared(std::move(descriptor), bytes, pages);
}

absl::StatusOr<SharedRegion> SharedRegion::Map(Descriptor descriptor, size_t bytes, Pages pages) {
  struct stat status;
  if (fstat(descriptor.get(), &status) != 0) return SystemError("shared memory: fstat");
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::FailedPreconditionError(
        "shared memory: the descriptor handed over is not a memfd sealed against truncation");
  }
  if (status.st_size < 0 || static_cast<size_t>(status.st_size) != bytes || bytes == 0) {
    return absl::FailedPreconditionError(absl::StrCat("shared memory: the memfd handed over has ",
                                                      status.st_size, " bytes, expected ", bytes));
  }
  return MapShared(std::move(descriptor), bytes, pages);
}

absl::StatusOr<SharedRegion> SharedRegion::MapShared(Descriptor descriptor, size_t bytes,
                                                     Pages pages) {
  // A file's huge pages are a process's only if the mapping begins at a multiple of their size.
  const bool large = bytes >= HugeMemory::kPageBytes;
  const size_t reserved = RoundUp(bytes, kPageBytes);
  void* const place = large ? ReserveAligned(reserved, HugeMemory::kPageBytes) : nullptr;
  if (large && place == nullptr) return Exhausted(bytes, ENOMEM);
  void* const data = mmap(place, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | (large ? MAP_FIXED : 0), descriptor.get(), 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    if (large) munmap(place, reserved);
    return Exhausted(bytes, error);
  }
  SharedRegion region(std::move(descriptor), static_cast<std::byte*>(data), bytes);
  madvise(data, bytes, MADV_HUGEPAGE);
  if (pages == Pages::kNow) {
    if (absl::Status status = region.Populate(0, bytes); !status.ok()) return status;
  }
  return region;
}

absl::Status SharedRegion::Populate(size_t begin, size_t bytes) const {
  std::byte* const first = data_ + begin;
  if (madvise(first, bytes, MADV_POPULATE_WRITE) == 0) return absl::OkStatus();
  // A lack of memory shows here; otherwise the first access would end the process.
  if (errno != EINVAL) return Exhausted(bytes, errno);
  // A kernel before 5.14.
  if (mmap(first, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
           descriptor(), static_cast<off_t>(begin)) == MAP_FAILED) {
    return Exhausted(bytes, errno);
  }
  return absl::OkStatus();
}

void SharedRegion::UseHugePages(size_t begin, size_t bytes) const {
  const size_t first = RoundUp(begin, HugeMemory::kPageBytes);
  const size_t end = (begin + bytes) / HugeMemory::kPageBytes * HugeMemory::kPageBytes;
  if (first < end) madvise(data_ + first, end - first, MADV_COLLAPSE);
}

SharedRegion::~SharedRegion() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

SharedRegion::SharedRegion(SharedRegion&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedRegion& SharedRegion::operator=(SharedRegion&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) munmap(data_, bytes_);
    descriptor_ = std::move(other.descriptor_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

}  // namespace muster
