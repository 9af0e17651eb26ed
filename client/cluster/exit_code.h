#ifndef MUSTER_CLIENT_CLUSTER_EXIT_CODE_H_
#define MUSTER_CLIENT_CLUSTER_EXIT_CODE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// What `muster` exits with. Scripts depend on these values.
enum ExitCode : int {
  kSuccess = 0,
  // Anything not named below.
  kFailure = 1,
  // The command line, a job file or a job specification is wrong.
  kUsage = 2,
  // The job ended as FAILED or CANCELLED.
  kJobFailed = 3,
  // No coordinator answers.
  kUnreachable = 4,
};

// Unavailable, and told from what else is: files, ports and programs of this machine.
absl::Status NoCoordinatorError(absl::string_view message);

// The exit code that tells about a failed command.
ExitCode ExitCodeFor(const absl::Status& status);

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_EXIT_CODE_H_
