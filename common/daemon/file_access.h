#ifndef MUSTER_COMMON_DAEMON_FILE_ACCESS_H_
#define MUSTER_COMMON_DAEMON_FILE_ACCESS_H_

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

// Who may read and write the folders and files that a process makes.
enum class FileAccess {
  // Its user: folders are 0700, files 0600.
  kUser,
  // Its group, too (0770 and 0660): for checkpoints on a file system that daemons of different
  // users share.
  kGroup,
};

// Adds --group-files, which every daemon has.
void AddFileAccessFlag(CLI::App& app, FileAccess& access);

// Has all files and folders that this process and its children make from now on be so, whatever
// umask it was started with, those that libraries make among them. Existing ones stay as they are.
void LimitFileAccess(FileAccess access);

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_FILE_ACCESS_H_
