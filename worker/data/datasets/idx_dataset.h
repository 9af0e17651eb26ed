#ifndef MUSTER_WORKER_DATA_DATASETS_IDX_DATASET_H_
#define MUSTER_WORKER_DATA_DATASETS_IDX_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"

namespace muster {

// Images and their classes from a pair of IDX files, plain or gzip, held in memory unpacked (one
// byte a pixel). An example's dense features are its pixels, row-major, divided by 255.
class IdxDataset : public Dataset {
 public:
  // NotFound: a path is missing. InvalidArgument: a file is malformed or truncated, the images have
  // fewer than 2 dimensions, the labels not exactly 1, or their numbers differ.
  static absl::StatusOr<std::unique_ptr<const IdxDataset>> Create(const std::string& images,
                                                                  const std::string& labels);

  // Does the same without labels, for images of which the class is to be predicted: each has the
  // label 0.
  static absl::StatusOr<std::unique_ptr<const IdxDataset>> CreateUnlabelled(
      const std::string& images);

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

 private:
  IdxDataset(std::string pixels, std::string labels);

  // All const after construction. Bytes [examples, dense_features] and [examples].
  const std::string pixels_;
  const std::string labels_;
  DatasetInfo info_;
  uint64_t fingerprint_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_IDX_DATASET_H_
