#ifndef MUSTER_CLIENT_JOB_INITIAL_WEIGHTS_H_
#define MUSTER_CLIENT_JOB_INITIAL_WEIGHTS_H_

#include <string>

#include "absl/status/statusor.h"

namespace muster {

// Whether a job's `initial_weights` names a folder on this machine: it has a slash in it. One with
// "file://" in front is a folder that servers see and this machine does not.
bool IsWeightsFolder(const std::string& name);

// What a job's `initial_weights` stands for: the id of a job, as it is, or the folder of a
// checkpoint, such as `muster import` writes, as an absolute path. NotFound: there is no complete
// checkpoint in the folder. Other errors: the checkpoint is damaged or of a newer format.
absl::StatusOr<std::string> ResolveInitialWeights(const std::string& name);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_INITIAL_WEIGHTS_H_
