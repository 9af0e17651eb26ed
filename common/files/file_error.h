#ifndef MUSTER_COMMON_FILES_FILE_ERROR_H_
#define MUSTER_COMMON_FILES_FILE_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns the status for a failed file operation: what was tried, on which path, why it failed and
// what to do. ResourceExhausted: no space. NotFound: no such file. PermissionDenied: rights or a
// read-only file system. FailedPrecondition: what has the name can never be such a file.
// Unavailable: all else, which may pass.
absl::Status FileError(absl::string_view operation, absl::string_view path, int error_number);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_FILE_ERROR_H_
