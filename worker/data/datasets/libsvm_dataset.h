#ifndef MUSTER_WORKER_DATA_DATASETS_LIBSVM_DATASET_H_
#define MUSTER_WORKER_DATA_DATASETS_LIBSVM_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/datasets/sparse_examples.h"

namespace muster {

struct LibsvmOptions {
  // The index that the format counts features from.
  enum class FirstIndex { kOne, kZero };
  FirstIndex first_index = FirstIndex::kOne;
  LabelKind labels = LabelKind::kClass;
  // For labels that are numbers, as in CsvOptions: the share that their mean and deviation are not
  // learned from, and the seed of the order whose end that is.
  double holdout = 0;
  absl::optional<uint64_t> shuffle_seed;
  // The preparation that came with the weights; null to learn one.
  const v1::CsvPreparation* preparation = nullptr;
};

// Sparse examples, one per line: `label index:value index:value …`, indices ascending. A '#' begins
// a comment; lines without content are skipped. Labels are -1 and +1, or classes from 0; or numbers
// to predict. Their preparation is that of a CSV file: it has the names of the classes -1 and +1,
// or the label as its one numeric column. A
// feature's key is its index counted from 0. Held in compressed rows (12 bytes per entry).
class LibsvmDataset : public Dataset {
 public:
  // NotFound: the path is missing. InvalidArgument, naming file, line, value and remedy: a label,
  // index or value is malformed, NaN or infinite, or an index is out of order or below the first.
  // InvalidArgument, too: the file holds no example, or is no text (common/files/check_is_text.h);
  // the preparation is not of a number to predict.
  static absl::StatusOr<std::unique_ptr<const LibsvmDataset>> Create(const std::string& path,
                                                                     const LibsvmOptions& options);

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

 private:
  class Parser;

  LibsvmDataset() = default;

  // All const after Create.
  SparseExamples rows_;
  // One of them is empty.
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
  DatasetInfo info_;
  uint64_t fingerprint_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_LIBSVM_DATASET_H_
