#ifndef MUSTER_SERVER_DATA_FOLDER_DATA_FOLDER_H_
#define MUSTER_SERVER_DATA_FOLDER_DATA_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/files/folder_entries.h"

namespace muster {

enum class DataOwner { kServer, kCoordinator };

// Makes sure that `folder` is a data folder of this daemon in a format this program knows, and
// marks a missing or empty one as such. The mark and the folder's own place are durable when it
// returns. Returns the server's identity: `server_id`, or the recorded one (a random one in a new
// folder) when that is empty; for the coordinator, which has none, "". FailedPrecondition: the
// folder holds something else; nothing is changed then.
absl::StatusOr<std::string> ClaimDataFolder(const std::string& folder, DataOwner owner,
                                            const std::string& server_id,
                                            FolderEntries& entries = FolderEntries::Posix());

// Makes a folder in a data folder, durably, and returns its absolute path.
absl::StatusOr<std::string> MakeDataSubfolder(const std::string& folder, absl::string_view name,
                                              FolderEntries& entries = FolderEntries::Posix());

}  // namespace muster

#endif  // MUSTER_SERVER_DATA_FOLDER_DATA_FOLDER_H_
