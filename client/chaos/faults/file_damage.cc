#include "client/chaos/faults/file_damage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Pieces of a file that hold something: [begin, end), each read whole by one pread.
struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
};

constexpr uint64_t kFileReadBytes = 1 << 20;

// Calls `visit` with the pieces of an open file that are not holes.
template <typename Visit>
absl::Status VisitData(int fd, const std::string& path, Visit visit) {
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError("cannot look at " + path);
  std::vector<char> buffer(kFileReadBytes);
  off_t at = 0;
  while (at < info.st_size) {
    const off_t begin = lseek(fd, at, SEEK_DATA);
    if (begin < 0) break;
    const off_t end = std::max<off_t>(begin, lseek(fd, begin, SEEK_HOLE));
    for (off_t from = begin; from < end;) {
      const ssize_t bytes =
          pread(fd, buffer.data(), std::min<uint64_t>(kFileReadBytes, end - from), from);
      if (bytes < 0) return SystemError("cannot read " + path);
      if (bytes == 0) break;
      MUSTER_RETURN_IF_ERROR(visit(from, buffer.data(), static_cast<size_t>(bytes)));
      from += bytes;
    }
    at = end;
  }
  return absl::OkStatus();
}

// Returns the position after a file's last byte other than zero.
absl::StatusOr<uint64_t> WrittenBytes(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("cannot open " + path);
  const absl::Cleanup close_file = [fd] { close(fd); };
  uint64_t written = 0;
  MUSTER_RETURN_IF_ERROR(VisitData(fd, path, [&](off_t from, const char* data, size_t bytes) {
    while (bytes > 0 && data[bytes - 1] == 0) --bytes;
    if (bytes > 0) written = from + bytes;
    return absl::OkStatus();
  }));
  return written;
}

absl::Status FlipBit(const std::string& path, uint64_t offset, int bit) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return SystemError("cannot open " + path);
  const absl::Cleanup close_file = [fd] { close(fd); };
  unsigned char byte = 0;
  if (pread(fd, &byte, 1, offset) != 1) return SystemError("cannot read " + path);
  byte ^= static_cast<unsigned char>(1 << bit);
  if (pwrite(fd, &byte, 1, offset) != 1) return SystemError("cannot write " + path);
  return absl::OkStatus();
}

absl::Status CopyFile(const fs::path& from, const fs::path& to) {
  const int in = open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (in < 0) return SystemError("cannot open " + from.string());
  const absl::Cleanup close_in = [in] { close(in); };
  const int out = open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (out < 0) return SystemError("cannot make " + to.string());
  const absl::Cleanup close_out = [out] { close(out); };
  MUSTER_RETURN_IF_ERROR(VisitData(in, from, [&](off_t at, const char* data, size_t bytes) {
    if (pwrite(out, data, bytes, at) != static_cast<ssize_t>(bytes)) {
      return SystemError("cannot write " + to.string());
    }
    return absl::OkStatus();
  }));
  struct stat info;
  if (fstat(in, &info) != 0 || ftruncate(out, info.st_size) != 0) {
    return SystemError("cannot size " + to.string());
  }
  return absl::OkStatus();
}

}  // namespace

std::string FileDamage::Describe() const {
  return kind == Kind::kFlippedBit ? absl::StrCat("flipped a bit of ", file, " at byte ", offset)
                                   : absl::StrCat("cut ", file, " off at byte ", offset);
}

absl::StatusOr<FileDamage> DamageOneFile(const std::string& folder, uint64_t seed) {
  struct Candidate {
    std::string file;
    uint64_t written = 0;
  };
  std::vector<Candidate> candidates;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    MUSTER_ASSIGN_OR_RETURN(const uint64_t written, WrittenBytes(it->path().string()));
    if (written == 0) continue;
    candidates.push_back({fs::relative(it->path(), folder, error).string(), written});
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot list ", folder, ": ", error.message()));
  }
  if (candidates.empty()) {
    return absl::NotFoundError(absl::StrCat("nothing is written under ", folder));
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.file < b.file; });
  const Philox random(seed, "chaos", "damage");
  // Each part of the folder is as likely as another, however many files it has.
  std::map<std::string, std::vector<const Candidate*>> parts;
  for (const Candidate& candidate : candidates) {
    parts[fs::path(candidate.file).begin()->string()].push_back(&candidate);
  }
  const auto part = std::next(parts.begin(), static_cast<ptrdiff_t>(random.Below(parts.size(), 4)));
  const Candidate& chosen = *part->second[random.Below(part->second.size(), 0)];
  FileDamage damage;
  damage.file = chosen.file;
  damage.kind =
      random.Below(4, 1) == 0 ? FileDamage::Kind::kTruncated : FileDamage::Kind::kFlippedBit;
  damage.offset = random.Below(chosen.written, 2);
  const std::string path = absl::StrCat(folder, "/", chosen.file);
  if (damage.kind == FileDamage::Kind::kFlippedBit) {
    MUSTER_RETURN_IF_ERROR(FlipBit(path, damage.offset, static_cast<int>(random.Below(8, 3))));
  } else if (truncate(path.c_str(), static_cast<off_t>(damage.offset)) != 0) {
    return SystemError("cannot cut off " + path);
  }
  return damage;
}

absl::Status CopyFolder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::remove_all(to, error);
  fs::create_directories(to, error);
  for (fs::recursive_directory_iterator it(from, error), end; !error && it != end;
       it.increment(error)) {
    const fs::path target = fs::path(to) / fs::relative(it->path(), from, error);
    if (it->is_directory(error)) {
      fs::create_directories(target, error);
    } else if (it->is_regular_file(error)) {
      MUSTER_RETURN_IF_ERROR(CopyFile(it->path(), target));
    }
  }
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot copy ", from, " to ", to, ": ", error.message()));
  }
  return absl::OkStatus();
}

}  // namespace muster
