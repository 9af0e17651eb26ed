#ifndef MUSTER_WORKER_DATA_DATASETS_LIBFFM_DATASET_H_
#define MUSTER_WORKER_DATA_DATASETS_LIBFFM_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/datasets/sparse_examples.h"

namespace muster {

struct LibffmOptions {
  FeatureForm features = FeatureForm::kEntries;
  // The preparation that came with the weights; null: there is none.
  const v1::CsvPreparation* preparation = nullptr;
};

// Sparse examples, one per line: `label field:feature:value …`, as libffm reads them, plain or
// compressed. Fields and features are numbers from 0; entries may stand in any order. A feature's
// key is the hash of both. Labels are those of libsvm data (class_labels.h), and have the same
// preparation. Blank lines are skipped.
//
// With FeatureForm::kOnePerField there are as many fields as the largest number in the file
// tells, and a field that a line lacks has a feature of its own, which stands for what is missing.
class LibffmDataset : public Dataset {
 public:
  // More fields than any such data have.
  static constexpr uint64_t kMostFields = 4096;

  // NotFound: the path is missing. InvalidArgument, naming file, line, entry and remedy: a label,
  // number or value is malformed, NaN or infinite. Of kOnePerField, too: a line has two features of
  // a field, a value is not 1, or a field is kMostFields or more. InvalidArgument, too: the file
  // holds no example or is no text, or a compressed file is damaged.
  static absl::StatusOr<std::unique_ptr<const LibffmDataset>> Create(const std::string& path,
                                                                     const LibffmOptions& options);

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

 private:
  class Parser;

  LibffmDataset() = default;

  // All const after Create.
  SparseExamples rows_;
  std::vector<int32_t> labels_;
  DatasetInfo info_;
  uint64_t fingerprint_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_LIBFFM_DATASET_H_
