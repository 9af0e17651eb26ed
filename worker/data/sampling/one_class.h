#ifndef MUSTER_WORKER_DATA_SAMPLING_ONE_CLASS_H_
#define MUSTER_WORKER_DATA_SAMPLING_ONE_CLASS_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"
#include "worker/data/sampling/split.h"

namespace muster {

// Returns a warning for people if either the training examples or the held-out ones seem to be all
// of one class and the others not: the data are probably sorted by label. Looks at up to 1,000
// examples of each, evenly spread. Returns an empty text if there is nothing to warn of, or
// examples have several labels each. Errors of the data.
absl::StatusOr<std::string> WarnOfOneClass(const Dataset& data, const Split& split);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_ONE_CLASS_H_
