#ifndef MUSTER_COMMON_FILES_SYNC_FOLDER_H_
#define MUSTER_COMMON_FILES_SYNC_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace muster {

// Makes durable which names the folder has: what was made, renamed or deleted in it. The content of
// its files is another matter. Blocks. Errors as FileError.
absl::Status SyncFolder(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_SYNC_FOLDER_H_
