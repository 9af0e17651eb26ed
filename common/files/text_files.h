#ifndef MUSTER_COMMON_FILES_TEXT_FILES_H_
#define MUSTER_COMMON_FILES_TEXT_FILES_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_content.h"

namespace muster {

// The regular files right inside a folder, symbolic links followed, in the order of their names'
// bytes.
struct TextFolder {
  // Paths of the files whose text is read. A link to nowhere is among them: opening it fails by
  // name, while leaving it out would train on other data than the folder seems to hold.
  std::vector<std::string> paths;
  // Names of the files that are left out: hidden ones, whose names begin with a dot, and the
  // backups of editors, whose names end in "~" or ".swp".
  std::vector<std::string> hidden;
};

// Lists a folder. Errors: the system could not list it.
absl::StatusOr<TextFolder> ListTextFolder(const std::string& folder);

// Returns which files ForEachTextFile leaves out at a path, for people: "folder '/d': left out 2
// hidden files: .DS_Store, a.txt~". Empty: none, or the path is no folder that can be listed.
std::string TellHiddenFiles(const std::string& path);

// Gives `take` the text at a path, with the path of each file: of one file, or of TextFolder::paths
// in a folder without empty ones, where of files with equal content only the first counts. There is
// at least one file, none empty, each of them text (common/files/check_is_text.h). A file is opened
// after those before it were taken, so no more of a corpus need be in memory than `take` keeps.
//
// NotFound: nothing is there, or a link in the folder points to nothing. InvalidArgument: there are
// no bytes at all, the path is neither file nor folder, or a file is no text. PermissionDenied,
// Internal: the system could not read it. The first error of `take` ends the call.
absl::Status ForEachTextFile(
    const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& file_path, FileContent file)> take);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_TEXT_FILES_H_
