#ifndef MUSTER_WORKER_DATA_DATASETS_OPEN_DATASET_H_
#define MUSTER_WORKER_DATA_DATASETS_OPEN_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"

namespace muster {

class PreparedFolder;

namespace v1 {
class DataSpec;
}  // namespace v1

struct DatasetOptions {
  // Bytes before the label in text examples; tokens of a sequence. Other readers ignore it.
  int64_t context = 0;
  // What the model predicts from the examples.
  LabelKind labels = LabelKind::kClass;
  // Says what the model reads of libffm data, in which lines may have any features of any field.
  FeatureForm features = FeatureForm::kEntries;
  // Serialised v1::DataPreparation that came with the weights. Empty if there is none: a reader
  // that needs a preparation then learns it from the examples that are not held out.
  std::string preparation;
  // Seed of the examples' order under DataSpec.shuffle_holdout; a random share is then held out.
  uint64_t seed = 0;
  // Makes token files of sources that need it; null: they are refused.
  const PreparedFolder* prepared = nullptr;
};

// Opens the data of a specification, builds the index and computes the fingerprint. Blocks, since
// it reads every byte of the data once. Does not apply the holdout: see split.h.
//
// NotFound: a path is missing (named). InvalidArgument: a file is empty or malformed (names file,
// line or offset, value and remedy), the specification names no reader or has a field out of range,
// the reader has no numbers to predict, or the preparation cannot be parsed or is for other
// columns. PermissionDenied, DataLoss: a file cannot be read.
absl::StatusOr<std::unique_ptr<const Dataset>> OpenDataset(const v1::DataSpec& spec,
                                                           const DatasetOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_OPEN_DATASET_H_
