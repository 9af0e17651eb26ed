#ifndef MUSTER_CLIENT_EXIT_CODE_H_
#define MUSTER_CLIENT_EXIT_CODE_H_

#include "absl/status/status.h"

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

// The exit code that tells about a failed command.
inline ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kSuccess;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return kUsage;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kUnreachable;
    default:
      return kFailure;
  }
}

}  // namespace muster

#endif  // MUSTER_CLIENT_EXIT_CODE_H_
