#ifndef MUSTER_COMMON_FILES_OUTPUT_FILE_H_
#define MUSTER_COMMON_FILES_OUTPUT_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace muster {

// Where a file has to be renamed to so that `path` names it: `path`, or what a link there leads to,
// so that the link stays. InvalidArgument: something that is no regular file is there (a folder, a
// device, a pipe), whose place the file would take.
absl::StatusOr<std::string> OutputFile(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_OUTPUT_FILE_H_
