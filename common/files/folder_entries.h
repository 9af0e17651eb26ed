#ifndef MUSTER_COMMON_FILES_FOLDER_ENTRIES_H_
#define MUSTER_COMMON_FILES_FOLDER_ENTRIES_H_

#include <string>

#include "absl/status/status.h"

namespace muster {

// Changes the names that folders hold; tests can crash between changes. A change is durable after
// Sync of the folder that holds the name. Thread-safe; calls block. Errors as FileError.
class FolderEntries {
 public:
  virtual ~FolderEntries() = default;

  // Returns the machine's file system: stateless, lives as long as the process.
  static FolderEntries& Posix();

  // Makes one folder, as open to others as the process's umask allows. OK if it exists.
  virtual absl::Status Make(const std::string& path) = 0;
  // Gives a file another name in the same file system. ALREADY_EXISTS: the name is taken; nothing
  // is ever replaced.
  virtual absl::Status Publish(const std::string& from, const std::string& to) = 0;
  // Removes a file's name. OK if there is none.
  virtual absl::Status Remove(const std::string& path) = 0;
  virtual absl::Status Sync(const std::string& folder) = 0;
};

// Makes the folder and those above it that are missing, and makes these durable. REQUIRES for both:
// the path is absolute and normal, without a slash at its end.
absl::Status MakeFolders(const std::string& path, FolderEntries& entries);

// Makes durable which names a folder holds, and the names of itself and of those above it, as far
// up as their file system goes: a process that crashed may have made any of them and synced none.
absl::Status SyncFolders(const std::string& path, FolderEntries& entries);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_FOLDER_ENTRIES_H_
