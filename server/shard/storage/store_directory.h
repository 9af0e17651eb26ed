#ifndef MUSTER_SERVER_SHARD_STORAGE_STORE_DIRECTORY_H_
#define MUSTER_SERVER_SHARD_STORAGE_STORE_DIRECTORY_H_

#include <string>

#include "absl/status/statusor.h"

namespace muster {

// Makes sure that `directory` is a data directory of this server in a format this program knows,
// and marks a missing or empty one as such. Returns the server's identity: `server_id`, or the
// recorded one (a random one in a new directory) when that is empty. FailedPrecondition: it holds
// something else; nothing is changed then.
absl::StatusOr<std::string> ClaimDataDirectory(const std::string& directory,
                                               const std::string& server_id);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_STORE_DIRECTORY_H_
