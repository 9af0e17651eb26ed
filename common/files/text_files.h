#ifndef MUSTER_COMMON_FILES_TEXT_FILES_H_
#define MUSTER_COMMON_FILES_TEXT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/file_content.h"

namespace muster {

// The text at a path: a file, or a folder, which stands for the regular files right inside it,
// symbolic links followed, in the order of their names' bytes, without empty ones; of files with
// equal content only the first counts. At least one file, none empty.
//
// NotFound: nothing is there, or a link in the folder points to nothing. InvalidArgument: there are
// no bytes at all, or it is neither file nor folder. PermissionDenied, Internal: the system could
// not read it.
absl::StatusOr<std::vector<FileContent>> OpenTextFiles(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_TEXT_FILES_H_
