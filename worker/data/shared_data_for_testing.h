#ifndef MUSTER_WORKER_DATA_SHARED_DATA_FOR_TESTING_H_
#define MUSTER_WORKER_DATA_SHARED_DATA_FOR_TESTING_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns the path of a real data set that the project does not hold: in the folder that the
// environment variable MUSTER_SHARED_DATA names, otherwise in ../shared/data seen from the
// project's root. NotFound: the file is absent; a test is skipped with the error's message.
absl::StatusOr<std::string> SharedDataFile(absl::string_view name);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SHARED_DATA_FOR_TESTING_H_
