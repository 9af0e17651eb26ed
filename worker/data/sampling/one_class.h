#ifndef MUSTER_WORKER_DATA_SAMPLING_ONE_CLASS_H_
#define MUSTER_WORKER_DATA_SAMPLING_ONE_CLASS_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"
#include "worker/data/sampling/split.h"

namespace muster {

// A warning for people where the held-out share, or the training one, seems to have examples of one
// class alone and the other does not: the data are probably sorted by label. Looks at up to
// 1,000 examples of each, spread over it. Empty: there is nothing to warn of, or examples have
// several labels each. Errors of the data.
absl::StatusOr<std::string> WarnOfOneClass(const Dataset& data, const Split& split);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_ONE_CLASS_H_
