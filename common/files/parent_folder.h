#ifndef MUSTER_COMMON_FILES_PARENT_FOLDER_H_
#define MUSTER_COMMON_FILES_PARENT_FOLDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Returns the folder that holds `path`: "/a" of "/a/b", "/" of "/a", "." of a path without slashes.
std::string ParentFolder(absl::string_view path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_PARENT_FOLDER_H_
