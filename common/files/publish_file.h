#ifndef MUSTER_COMMON_FILES_PUBLISH_FILE_H_
#define MUSTER_COMMON_FILES_PUBLISH_FILE_H_

#include <string>

namespace muster {

// Gives the file `from` the name `to` in the same file system, unless there is something of that
// name, which is never replaced. Returns 0, or an error number; EEXIST: the name is taken.
int PublishFile(const std::string& from, const std::string& to);

// The same by a second link to the file, whose first name then goes: for file systems that cannot
// rename without replacing, as NFS.
int PublishFileByLink(const std::string& from, const std::string& to);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_PUBLISH_FILE_H_
