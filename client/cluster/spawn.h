#ifndef MUSTER_CLIENT_CLUSTER_SPAWN_H_
#define MUSTER_CLIENT_CLUSTER_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

struct SpawnOptions {
  // Program path, then its arguments.
  std::vector<std::string> command;
  // Standard output and error are appended to this file.
  std::string output_file;
  // Whether the process leaves this terminal and process group, so that Ctrl-C here does not reach
  // it.
  bool detached = false;
};

// Starts a program with no standard input and default signal handling. NotFound: no such program.
// Internal: anything else the system says.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

// The folder of this executable.
std::string ExecutableFolder();

// Path of one of Muster's other programs ("muster-server"): beside this executable, or where the
// build puts it. NotFound: names the places looked at.
absl::StatusOr<std::string> FindProgram(const std::string& name);

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_SPAWN_H_
