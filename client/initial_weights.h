#ifndef MUSTER_CLIENT_INITIAL_WEIGHTS_H_
#define MUSTER_CLIENT_INITIAL_WEIGHTS_H_

#include <string>

#include "absl/status/statusor.h"

namespace muster {

// What a job's `initial_weights` stands for: the id of a job, as it is, or the folder of a
// checkpoint, such as `muster import` writes, as an absolute path. A name with a slash in it is a
// folder's, relative to `base`; one with "file://" in front is taken as it is, for folders that
// servers see and this machine does not. NotFound: there is no complete checkpoint in the folder.
// Other errors: the checkpoint is damaged or of a newer format.
absl::StatusOr<std::string> ResolveInitialWeights(const std::string& name, const std::string& base);

}  // namespace muster

#endif  // MUSTER_CLIENT_INITIAL_WEIGHTS_H_
