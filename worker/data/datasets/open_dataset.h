#ifndef MUSTER_WORKER_DATA_DATASETS_OPEN_DATASET_H_
#define MUSTER_WORKER_DATA_DATASETS_OPEN_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"

namespace muster {

namespace v1 {
class DataSpec;
}  // namespace v1

struct DatasetOptions {
  // Bytes of context that text examples carry, and tokens of a sequence: what the model looks back
  // on. Other readers ignore it.
  int64_t context = 0;
  // Serialised v1::DataPreparation that the weights came with; a reader that needs one takes it in
  // place of learning its own. Empty: it learns, from the examples that are not held out.
  std::string preparation;
  // Draws the order of the examples where DataSpec.shuffle_holdout is set: their end, which is held
  // out, is then a random share.
  uint64_t seed = 0;
};

// Opens the data that a specification names, builds its index and takes its fingerprint; reads
// every byte of it once, so it blocks for as long as that takes. The holdout is not applied here:
// see split.h.
//
// NotFound: a path is missing (named). InvalidArgument: a file is malformed (the message names
// file, line or offset, value and remedy) or empty, or the specification names no reader or a field
// out of range, or the preparation is none, or of other columns. PermissionDenied and DataLoss: the
// system could not read a file.
absl::StatusOr<std::unique_ptr<const Dataset>> OpenDataset(const v1::DataSpec& spec,
                                                           const DatasetOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_OPEN_DATASET_H_
