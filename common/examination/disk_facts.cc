#include "common/examination/disk_facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/examination/fact_text.h"
#include "common/files/file_error.h"
#include "common/transport/descriptor.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kSmallWriteBytes = 4096;
constexpr size_t kMostNames = 10'000;

absl::StatusOr<Descriptor> OpenTemporary(const std::string& folder) {
  Descriptor file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid()) return file;
  if (errno == EOPNOTSUPP || errno == EISDIR) {
    std::string path = folder + "/.muster-measures-XXXXXX";
    file = Descriptor(mkostemp(path.data(), O_CLOEXEC));
    if (file.valid()) {
      unlink(path.c_str());
      return file;
    }
  }
  return FileError("make a file in", folder, errno);
}

void SetSpace(int file, v1::DiskFacts& facts) {
  struct statvfs disk = {};
  if (fstatvfs(file, &disk) == 0) {
    facts.set_total_bytes(uint64_t{disk.f_blocks} * disk.f_frsize);
    facts.set_free_bytes(uint64_t{disk.f_bavail} * disk.f_frsize);
    facts.set_total_files(disk.f_files);
    facts.set_free_files(disk.f_favail);
  }
  struct statfs system = {};
  if (fstatfs(file, &system) == 0) {
    const auto type = static_cast<unsigned long>(system.f_type);
    facts.set_in_memory(type == TMPFS_MAGIC || type == RAMFS_MAGIC);
  }
}

absl::Status WriteAt(int file, const std::vector<char>& bytes, size_t offset,
                     const std::string& folder) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t wrote =
        pwrite(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return FileError("write a file in", folder, errno);
    done += static_cast<size_t>(wrote);
  }
  return absl::OkStatus();
}

absl::Status SyncData(int file, const std::string& folder) {
  return fdatasync(file) == 0 ? absl::OkStatus() : FileError("sync a file in", folder, errno);
}

absl::Status Measure(const std::string& folder, const DiskMeasurement& how, v1::DiskFacts& facts) {
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file, OpenTemporary(folder));
  SetSpace(file.get(), facts);
  const RealClock clock;
  const absl::Duration begun = clock.Monotonic();
  const auto is_over = [&] {
    return clock.Monotonic() - begun > how.longest || (how.stopping && how.stopping());
  };
  // Bytes that a file system which compresses cannot make fewer.
  std::vector<char> piece(kPieceBytes);
  for (size_t i = 0; i < piece.size(); i += sizeof(uint64_t)) {
    const uint64_t bits = MixBits(i + 1);
    std::copy_n(reinterpret_cast<const char*>(&bits), sizeof(bits), &piece[i]);
  }
  size_t written = 0;
  for (; written < how.bytes && !is_over(); written += piece.size()) {
    MUSTER_RETURN_IF_ERROR(WriteAt(file.get(), piece, written, folder));
  }
  MUSTER_RETURN_IF_ERROR(SyncData(file.get(), folder));
  facts.set_written_bytes(written);
  facts.set_write_us(absl::ToInt64Microseconds(clock.Monotonic() - begun));
  const std::vector<char> small(kSmallWriteBytes, 'm');
  absl::Duration sum, slowest;
  for (int i = 0; i < how.syncs && !is_over(); ++i) {
    const absl::Duration before = clock.Monotonic();
    MUSTER_RETURN_IF_ERROR(WriteAt(file.get(), small, written + i * small.size(), folder));
    MUSTER_RETURN_IF_ERROR(SyncData(file.get(), folder));
    const absl::Duration took = clock.Monotonic() - before;
    sum += took;
    slowest = std::max(slowest, took);
    facts.set_syncs(i + 1);
    facts.set_mean_sync_us(absl::ToInt64Microseconds(sum / (i + 1)));
    facts.set_slowest_sync_us(absl::ToInt64Microseconds(slowest));
  }
  return absl::OkStatus();
}

}  // namespace

void MeasureDisk(const std::string& folder, const DiskMeasurement& how, v1::DiskFacts& facts) {
  facts.set_path(FactText(folder));
  const absl::Status status = Measure(folder, how, facts);
  if (!status.ok()) facts.set_error(FactText(status.message()));
}

void ReadFolderFacts(const std::string& folder, v1::FolderFacts& facts) {
  facts.set_path(FactText(folder));
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()), closedir);
  if (open == nullptr) {
    facts.set_error(FactText(FileError("read the folder", folder, errno).message()));
    return;
  }
  std::vector<std::string> names;
  while (const dirent* const entry = readdir(open.get())) {
    // Hidden names come and go.
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    if (names.size() == kMostNames) break;
  }
  std::sort(names.begin(), names.end());
  facts.set_names(names.size());
  facts.set_names_hash(Fingerprint(absl::StrJoin(names, "/")));
}

}  // namespace muster
