#ifndef MUSTER_SERVER_DATA_FOLDER_DATA_FOLDER_H_
#define MUSTER_SERVER_DATA_FOLDER_DATA_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/files/folder_entries.h"

namespace muster {

enum class DataOwner { kServer, kCoordinator };

// Makes sure that `folder` is a data folder of this daemon in a known format, and marks a missing
// or empty one as such. Mark and folder are durable on return. Returns the server's identity:
// `server_id`, or if that is empty the recorded one (random in a new folder); "" for the
// coordinator. FailedPrecondition: the folder holds something else and is unchanged.
absl::StatusOr<std::string> ClaimDataFolder(const std::string& folder, DataOwner owner,
                                            const std::string& server_id,
                                            FolderEntries& entries = FolderEntries::Posix());

// Makes a folder in a data folder, durably, and returns its absolute path.
absl::StatusOr<std::string> MakeDataSubfolder(const std::string& folder, absl::string_view name,
                                              FolderEntries& entries = FolderEntries::Posix());

}  // namespace muster

#endif  // MUSTER_SERVER_DATA_FOLDER_DATA_FOLDER_H_
