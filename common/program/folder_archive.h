#ifndef MUSTER_COMMON_PROGRAM_FOLDER_ARCHIVE_H_
#define MUSTER_COMMON_PROGRAM_FOLDER_ARCHIVE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/storage.h"

// A folder as one sequence of bytes, which is shipped with a job whose program runs in it. The same
// folders and files, with the same owner's right to execute, give the same bytes on every machine;
// times, owners and other rights are left out. There are no links, and nothing is compressed, so an
// archive unpacks to no more than its own size. The bytes are
//
//   "MUSTER FOLDER 1\n"
//   for each folder and file, in order of the paths' bytes:
//     'd' (a folder), 'f' (a file) or 'x' (a file that may be executed)
//     the path's length, in 4 bytes, the least first; the path, with slashes between its parts
//     for a file: its length, in 8 bytes, the least first; its content
//   "e"
//
// Each folder comes before what is in it. The Python package writes the same bytes
// (python/src/muster/_ship.py).
namespace muster {

// The most bytes of an archive, and the most files and folders in it.
inline constexpr uint64_t kMostArchiveBytes = uint64_t{256} << 20;
inline constexpr size_t kMostArchiveEntries = 10000;

struct ArchiveEntry {
  enum class Kind : char { kFolder = 'd', kFile = 'f', kExecutable = 'x' };
  Kind kind = Kind::kFile;
  // Relative to the folder. No part is empty, "." or "..", or has more than 255 bytes.
  std::string path;
  // Length of a file's content.
  uint64_t bytes = 0;
};

// Appends an archive to a string.
class ArchiveWriter {
 public:
  // The string outlives the writer.
  explicit ArchiveWriter(std::string& archive);

  // Adds an entry; `content` is a file's, and `entry.bytes` is not looked at. REQUIRES: the path
  // comes after that of the entry before, and that of its folder has come.
  void Add(const ArchiveEntry& entry, absl::string_view content);
  // Call once, last.
  void End();

 private:
  std::string& archive_;
};

// Takes what ReadArchive finds. An error ends the reading, and is returned.
class ArchiveSink {
 public:
  virtual ~ArchiveSink() = default;

  // Begins an entry. REQUIRES of the caller: the path is as ArchiveEntry says, comes once, and
  // directly in a folder that came before or in the archive's own.
  virtual absl::Status Begin(const ArchiveEntry& entry) = 0;
  // Takes the next bytes of the file that was begun last.
  virtual absl::Status Content(absl::string_view bytes) = 0;
  // Ends the entry. A file's content has come whole.
  virtual absl::Status End() = 0;
};

// Reads an archive, once and in order, and passes on what is in it. Whoever made the archive need
// not mean well: at the first fault, the reading ends. Whether the content is that of the name is
// known at the end only, so the caller uses nothing before OK. DataLoss: it is no archive, is
// larger than the limits, has an impossible path, or other bytes than `name` says. Other errors are
// those of `reader` and `sink`.
absl::Status ReadArchive(const StorageReader& reader, absl::string_view name, ArchiveSink& sink);

}  // namespace muster

#endif  // MUSTER_COMMON_PROGRAM_FOLDER_ARCHIVE_H_
