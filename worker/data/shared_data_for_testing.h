#ifndef MUSTER_WORKER_DATA_SHARED_DATA_FOR_TESTING_H_
#define MUSTER_WORKER_DATA_SHARED_DATA_FOR_TESTING_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Path of one of the real data sets that tests and trials use and the project does not hold: in the
// folder that the environment variable MUSTER_SHARED_DATA names, or else in ../shared/data seen
// from the project's root. NotFound: the file is absent; its message is a reason to skip the test
// with.
absl::StatusOr<std::string> SharedDataFile(absl::string_view name);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SHARED_DATA_FOR_TESTING_H_
