#ifndef MUSTER_CLIENT_JOB_INITIAL_WEIGHTS_H_
#define MUSTER_CLIENT_JOB_INITIAL_WEIGHTS_H_

#include <string>

#include "absl/status/statusor.h"

namespace muster {

// Returns true if a job's `initial_weights` names a folder on this machine, which contains a slash.
// A name that begins with "file://" is a folder that servers see and this machine does not.
bool IsWeightsFolder(const std::string& name);

// Returns what a job's `initial_weights` means: a job's id unchanged, or for the folder of a
// checkpoint, such as `muster import` writes, its absolute path. NotFound: the folder has no
// complete checkpoint. Other errors: the checkpoint is damaged or of a newer format.
absl::StatusOr<std::string> ResolveInitialWeights(const std::string& name);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_INITIAL_WEIGHTS_H_
