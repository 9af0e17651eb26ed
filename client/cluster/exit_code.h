#ifndef MUSTER_CLIENT_CLUSTER_EXIT_CODE_H_
#define MUSTER_CLIENT_CLUSTER_EXIT_CODE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Exit codes of `muster`. Scripts depend on these values.
enum ExitCode : int {
  kSuccess = 0,
  // Any failure that has no code of its own.
  kFailure = 1,
  // The command line, a job file or a job specification is wrong.
  kUsage = 2,
  // The job ended as FAILED or CANCELLED.
  kJobFailed = 3,
  // No coordinator answers.
  kUnreachable = 4,
  // The user interrupted the command (Ctrl-C), as of a process that SIGINT ended.
  kInterrupted = 130,
};

// Returns an Unavailable error for a coordinator that does not answer, which ExitCodeFor tells
// apart from other Unavailable errors (of this machine's files, ports and programs).
absl::Status NoCoordinatorError(absl::string_view message);

// Returns the exit code for a failed command.
ExitCode ExitCodeFor(const absl::Status& status);

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_EXIT_CODE_H_
