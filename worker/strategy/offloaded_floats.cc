#include "worker/strategy/offloaded_floats.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/round_up.h"
#include "common/files/file_error.h"
#include "common/text/format_bytes.h"

namespace muster {
namespace {

constexpr size_t kPage = kOffloadPageBytes;
// Maps pages that are there already, all in one go. Linux 5.14 has it.
constexpr int kPopulateForWriting = 23;

// Opens a file without a name; -1 sets errno.
int OpenNameless(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return descriptor;
  std::string path = folder + "/muster-state-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

bool IsInMemory(int descriptor) {
  struct statfs system;
  if (fstatfs(descriptor, &system) != 0) return false;
  const auto type = static_cast<unsigned long>(system.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

// Returns the bytes that this process may still write to a disk.
uint64_t FreeBytes(const struct statvfs& disk) { return uint64_t{disk.f_bavail} * disk.f_frsize; }

// The pages that a range touches, as bytes of the file.
struct Pages {
  explicit Pages(OffloadedFloats::Range range)
      : begin(range.begin * sizeof(float) / kPage * kPage),
        bytes(range.begin == range.end ? 0 : RoundUp(range.end * sizeof(float), kPage) - begin) {}

  const size_t begin;
  const size_t bytes;
};

}  // namespace

absl::Status CheckRoomForNewFiles(const std::string& folder, size_t bytes) {
  struct statvfs disk;
  if (statvfs(folder.c_str(), &disk) != 0) return FileError("find the disk of", folder, errno);
  if (FreeBytes(disk) >= bytes) return absl::OkStatus();
  return FileError(absl::StrCat("keep ", FormatBytes(static_cast<double>(bytes)),
                                " free, for optimizer state while the workers change, in"),
                   folder, ENOSPC);
}

absl::StatusOr<std::unique_ptr<OffloadedFloats>> OffloadedFloats::Create(const std::string& folder,
                                                                         size_t floats) {
  const int descriptor = OpenNameless(folder);
  if (descriptor < 0) return FileError("make a file for optimizer state in", folder, errno);
  std::unique_ptr<OffloadedFloats> values(new OffloadedFloats(descriptor, floats));
  if (floats == 0) return values;
  if (IsInMemory(descriptor)) {
    return absl::FailedPreconditionError(
        absl::StrCat("optimizer state cannot be offloaded to ", folder,
                     ", which is itself in memory (tmpfs); name a folder on a disk"));
  }
  const int error = values->ReserveAndMap();
  if (error == 0) return values;
  return FileError(
      absl::StrCat("reserve ", FormatBytes(static_cast<double>(OffloadedBytes(floats))),
                   " for optimizer state in"),
      folder, error);
}

int OffloadedFloats::ReserveAndMap() {
  const size_t bytes = OffloadedBytes(floats_);
  // Otherwise the disk would be full for all others for a moment.
  struct statvfs disk;
  if (fstatvfs(descriptor_, &disk) == 0 && FreeBytes(disk) < bytes) return ENOSPC;
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
  if (error != 0) return error;
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, /*offset=*/0);
  if (data == MAP_FAILED) return errno;
  data_ = data;
  return 0;
}

OffloadedFloats::~OffloadedFloats() {
  if (data_ != nullptr) munmap(data_, OffloadedBytes(floats_));
  close(descriptor_);
}

// All of these are advice: without them pages are mapped as they are touched, and the system writes
// and drops them in its own time.
void OffloadedFloats::Enter(Range range, Range next) const {
  std::byte* const data = static_cast<std::byte*>(data_);
  const Pages ahead(next), here(range);
  if (ahead.bytes > 0) madvise(data + ahead.begin, ahead.bytes, MADV_WILLNEED);
  if (here.bytes > 0) madvise(data + here.begin, here.bytes, kPopulateForWriting);
}

void OffloadedFloats::Leave(Range range) const {
  const Pages here(range);
  if (here.bytes == 0) return;
  // Unmapped first, so that writing need not take the pages' write access away.
  madvise(static_cast<std::byte*>(data_) + here.begin, here.bytes, MADV_DONTNEED);
  sync_file_range(descriptor_, static_cast<off_t>(here.begin), static_cast<off_t>(here.bytes),
                  SYNC_FILE_RANGE_WRITE);
}

}  // namespace muster
