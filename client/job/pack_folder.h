#ifndef MUSTER_CLIENT_JOB_PACK_FOLDER_H_
#define MUSTER_CLIENT_JOB_PACK_FOLDER_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace muster {

// Name of the file in a folder that says what of it is not shipped (IgnoreRules).
inline constexpr char kIgnoreFile[] = ".musterignore";

// A folder as it is shipped with a job.
struct PackedFolder {
  // See common/program/folder_archive.h. All of it is in memory, so that what is sent is what was
  // named, though files may change meanwhile.
  std::string archive;
  // Name of the archive's content (ContentHash).
  std::string name;
  size_t files = 0;
};

// Packs a folder with all regular files and folders in it, except what its .musterignore names,
// .git, __pycache__, virtual environments of Python (folders with a pyvenv.cfg), and folders of
// clusters that `muster up` started (with a cluster.json), which hold tokens. The same content
// gives the same name.
//
// NotFound: there is no such folder. InvalidArgument: it is none; there is a symbolic link in it, a
// pipe, socket or device; the archive would have more than kMostArchiveBytes or
// kMostArchiveEntries, and the error names the largest files; or .musterignore is wrong. Other
// errors as FileError: something cannot be read. Each says what to do.
absl::StatusOr<PackedFolder> PackFolder(const std::string& path);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_PACK_FOLDER_H_
