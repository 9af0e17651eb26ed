#ifndef MUSTER_WORKER_DATA_CHECK_DATASET_FOR_TESTING_H_
#define MUSTER_WORKER_DATA_CHECK_DATASET_FOR_TESTING_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"

namespace muster {

// Checks what every reader promises of any file, at `path`: an InvalidArgument that names the file,
// or examples that fit what it says of them. Ends the process where that does not hold.
void CheckDataset(const absl::StatusOr<std::unique_ptr<const Dataset>>& dataset,
                  const std::string& path);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CHECK_DATASET_FOR_TESTING_H_
