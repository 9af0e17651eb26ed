#ifndef MUSTER_COMMON_FILES_OPEN_REGULAR_FILE_H_
#define MUSTER_COMMON_FILES_OPEN_REGULAR_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/files/file_roots.h"

namespace muster {

// A file open for reading. Whoever has it closes the descriptor.
struct OpenedFile {
  int descriptor = -1;
  // Size when opened.
  uint64_t size = 0;
};

// Opens for reading a file that a job, a request or another file has named; whoever named it may
// have put anything there. Never waits for a writer. Programs that are started do not inherit the
// descriptor.
//
// InvalidArgument: the path is empty, or names a folder, a pipe, a device or one of the kernel's
// own files (/proc/kmsg, say), which have no content that stays. NotFound, PermissionDenied,
// ResourceExhausted, Unavailable: as FileError. Every message names the path.
//
// PermissionDenied for all outside the process's roots if it is confined (see ConfineData).
absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path);
// Does the same within these roots; null: anywhere.
absl::StatusOr<OpenedFile> OpenRegularFileWithin(const FileRoots* roots, const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_OPEN_REGULAR_FILE_H_
