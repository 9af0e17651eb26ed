#ifndef MUSTER_WORKER_DATA_DATASETS_CLASS_PREPARATION_H_
#define MUSTER_WORKER_DATA_DATASETS_CLASS_PREPARATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/dataset.h"
#include "worker/data/parsing/class_labels.h"

namespace muster {

// Sets the labels of libsvm or libffm data, the number of classes, and the preparation: the names
// of the classes, if they are not numbers from 0. `kept` came with the weights, whose data name the
// classes; null: there is none. Errors are those of ClassLabels::Finish.
absl::Status PrepareClasses(ClassLabels& collected, const v1::CsvPreparation* kept,
                            DatasetInfo& info, std::vector<int32_t>& labels);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_CLASS_PREPARATION_H_
