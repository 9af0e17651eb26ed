#ifndef MUSTER_COMMON_DAEMON_TOKEN_FILE_H_
#define MUSTER_COMMON_DAEMON_TOKEN_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Files with a secret that a daemon is given by a flag.
namespace muster {

// Returns the token in a file: its text, without white space around it. InvalidArgument: the file
// cannot be read, or has no token of 16 to 1024 letters, digits and -._~+/=.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

// Checks that nobody but a file's user, and root, can read or write it. A file of root's may be
// readable by its group, as in Kubernetes' secrets. InvalidArgument: others can, or there is no
// such file.
absl::Status CheckIsPrivate(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_TOKEN_FILE_H_
