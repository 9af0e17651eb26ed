#ifndef MUSTER_COMMON_FILES_PUBLISH_FILE_H_
#define MUSTER_COMMON_FILES_PUBLISH_FILE_H_

#include <string>

namespace muster {

// Gives the file `from` the name `to` in the same file system, unless that name is taken: nothing
// is ever replaced. Returns 0, or an error number; EEXIST: the name is taken.
int PublishFile(const std::string& from, const std::string& to);

// Does the same by a second link to the file, whose first name is then removed: for file systems
// that cannot rename without replacing, such as NFS.
int PublishFileByLink(const std::string& from, const std::string& to);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_PUBLISH_FILE_H_
