#ifndef MUSTER_WORKER_DATA_CHECK_DATASET_FOR_TESTING_H_
#define MUSTER_WORKER_DATA_CHECK_DATASET_FOR_TESTING_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"

namespace muster {

// Checks that a reader returned InvalidArgument that names `path`, or a dataset whose examples fit
// its DatasetInfo. Ends the process otherwise.
void CheckDataset(const absl::StatusOr<std::unique_ptr<const Dataset>>& dataset,
                  const std::string& path);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CHECK_DATASET_FOR_TESTING_H_
