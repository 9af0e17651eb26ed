#ifndef MUSTER_COMMON_FILES_PATH_PATTERN_H_
#define MUSTER_COMMON_FILES_PATH_PATTERN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

// Returns the files that a path names, in the order of their paths' bytes, each once.
//
// A path without any of "*?[{", or one at which there is a file under this very name, stands for
// itself, whatever is there. All others are patterns: "*" stands for any characters of a name, "?"
// for one, "[a-z]" for one of these, "[!a-z]" for one other character, "{x,y}" for each of its
// parts, which may be patterns or hold slashes. None stands for a slash, nor for a dot at a name's
// beginning. Parts without "*?[" name files as they are; the others stand for regular files alone.
//
// NotFound: no file fits. InvalidArgument: a brace is not closed, or the pattern stands for more
// than 1,024 others, 10,000 files, or a million names that are looked at. PermissionDenied: a
// folder to list lies outside of the roots that the process is confined to (see
// common/files/file_roots.h). Other errors: a folder cannot be listed.
absl::StatusOr<std::vector<std::string>> FilesOfPattern(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_PATH_PATTERN_H_
