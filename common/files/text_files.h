#ifndef MUSTER_COMMON_FILES_TEXT_FILES_H_
#define MUSTER_COMMON_FILES_TEXT_FILES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/files/file_content.h"

namespace muster {

// Gives `take` the text at a path, with the path of each file: a file, or a folder, which stands
// for the regular files right inside it, symbolic links followed, in the order of their names'
// bytes, without empty ones; of files with equal content only the first counts. At least one file,
// none empty. A file is opened when those before it were taken, so that of a corpus no more need be
// in memory than `take` keeps.
//
// NotFound: nothing is there, or a link in the folder points to nothing. InvalidArgument: there are
// no bytes at all, or it is neither file nor folder. PermissionDenied, Internal: the system could
// not read it. An error of `take` ends it.
absl::Status ForEachTextFile(
    const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& file_path, FileContent file)> take);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_TEXT_FILES_H_
