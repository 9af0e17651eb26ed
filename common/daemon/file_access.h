#ifndef MUSTER_COMMON_DAEMON_FILE_ACCESS_H_
#define MUSTER_COMMON_DAEMON_FILE_ACCESS_H_

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

// The users who may read and write the folders and files that a process makes.
enum class FileAccess {
  // The process's user: folders are 0700, files 0600.
  kUser,
  // The process's group, too (0770 and 0660): for checkpoints on a file system that daemons of
  // different users share.
  kGroup,
};

// Adds --group-files, which every daemon has.
void AddFileAccessFlag(CLI::App& app, FileAccess& access);

// Gives all that this process, its children and its libraries make from now on this access,
// whatever umask the process was started with. Existing files and folders stay as they are.
void LimitFileAccess(FileAccess access);

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_FILE_ACCESS_H_
