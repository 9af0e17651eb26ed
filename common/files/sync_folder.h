#ifndef MUSTER_COMMON_FILES_SYNC_FOLDER_H_
#define MUSTER_COMMON_FILES_SYNC_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace muster {

// Makes durable which names the folder has: what was made, renamed or deleted in it, but not the
// content of its files. Blocks. Errors as FileError.
absl::Status SyncFolder(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_SYNC_FOLDER_H_
