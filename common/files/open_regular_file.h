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
  // When it was opened.
  uint64_t size = 0;
};

// Opens a file for reading that a job, a request or another file has named: whoever named it may
// have put anything there. Never waits for a writer, and is not inherited by programs that are
// started.
//
// InvalidArgument: the path is empty, or there is a folder, a pipe, a device or one of the kernel's
// own files (/proc/kmsg, say), which have no content that stays. NotFound, PermissionDenied,
// ResourceExhausted, Unavailable: as FileError. Every message names the path.
//
// Within the roots that the process is confined to, if it is (see ConfineData): PermissionDenied
// for all else.
absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path);
// Within these; null: anywhere.
absl::StatusOr<OpenedFile> OpenRegularFileWithin(const FileRoots* roots, const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_OPEN_REGULAR_FILE_H_
