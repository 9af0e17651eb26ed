#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_HIDDEN_ENVIRONMENT_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_HIDDEN_ENVIRONMENT_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace muster {

// The values of a program's environment may be secret. Only the task's order has them; whoever asks
// for a job is shown a text in their place. `muster checkpoint restore` submits what it was shown,
// so the text stands for the value in the job that is gone on from.

// Replaces all values of the environment of a program's specification by the text.
void HideEnvironment(v1::JobSpec& spec);

// Replaces the text by the values of `source`, for the names that it has.
void TakeHiddenValues(const v1::JobSpec& source, v1::JobSpec& spec);

// InvalidArgument: a value of the environment is still the text (names the variable).
absl::Status CheckNothingHidden(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_HIDDEN_ENVIRONMENT_H_
