#ifndef MUSTER_CLIENT_CLUSTER_SPAWN_H_
#define MUSTER_CLIENT_CLUSTER_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

struct SpawnOptions {
  // Program path, then its arguments.
  std::vector<std::string> command;
  // File to which standard output and error are appended.
  std::string output_file;
  // True if the process leaves this terminal and process group, so that Ctrl-C here does not reach
  // it.
  bool detached = false;
};

// Starts a program without standard input and with default signal handling. NotFound: there is no
// such program. Internal: any other error of the system.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

// A program's end.
struct ProgramEnd {
  // Its exit code; of a signal the number after 128.
  int exit_code = 0;
  // Holds what it wrote to standard output and error.
  std::string output;
};

// Runs a program without standard input to its end. `command` is as in SpawnOptions. The program
// can open what this process has open, by the paths of UnnamedFile. Errors are Spawn's, and those
// of a temporary file.
absl::StatusOr<ProgramEnd> RunProgram(const std::vector<std::string>& command);

// Has a program take this process's place. Returns only where that fails. `command` is as in
// SpawnOptions.
absl::Status Exec(std::vector<std::string> command);

// Returns the folder of this executable.
std::string ExecutableFolder();

// Returns the path of one of Muster's other programs (such as "muster-server"), which lies beside
// this executable or where the build puts it. NotFound: names the places searched.
absl::StatusOr<std::string> FindProgram(const std::string& name);

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_SPAWN_H_
