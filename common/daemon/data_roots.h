#ifndef MUSTER_COMMON_DAEMON_DATA_ROOTS_H_
#define MUSTER_COMMON_DAEMON_DATA_ROOTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/file_roots.h"

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

// Adds --data-root, which daemons and tasks have: the folders that bound what jobs can name.
void AddDataRootFlag(CLI::App& app, std::vector<std::string>& folders);

// Returns the same flags for a program that this one starts.
std::vector<std::string> DataRootArguments(const std::vector<std::string>& folders);

// Returns the roots within which a daemon that listens on `listen`, a HOST:PORT, opens what others
// name. Null: anywhere, since only this machine's programs reach it and no folder is named.
// FailedPrecondition: no folder is named, but others reach it. Other errors as FileRoots.
absl::StatusOr<std::shared_ptr<const FileRoots>> RootsOfDaemon(
    const std::string& listen, const std::vector<std::string>& folders);

// Returns whether only programs of this machine reach a HOST:PORT.
bool IsLoopback(const std::string& listen);

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_DATA_ROOTS_H_
