#ifndef MUSTER_WORKER_DATA_CSV_DATASET_H_
#define MUSTER_WORKER_DATA_CSV_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"

namespace muster {

// Which columns of a CSV file are what, by the names in its header.
struct CsvColumns {
  // Class: -1 and +1, 0 and 1, or whole numbers from 0.
  std::string label;
  std::vector<std::string> numeric;
  std::vector<std::string> categorical;
};

// A CSV file with a header line (csv_parser.h tells the syntax). Spaces around a value do not count
// and an empty value is a missing one. Held in memory (4 bytes a number, 8 a category).
//
// The dense features are the numeric columns in the order asked for, each shifted and scaled so
// that the file's present values have mean 0 and variance 1; a missing value becomes the mean, 0,
// as do all values of a column whose values are all the same. The fields are the categorical
// columns in the order asked for; a key is the hash of the text and of the field's number, and a
// missing value is a category of its own.
class CsvDataset : public Dataset {
 public:
  // NotFound: the path is missing. InvalidArgument: the file is malformed (names line, column,
  // value and remedy), no example follows the header, or a column asked for is not in the header
  // (which is listed), there twice, or used twice.
  static absl::StatusOr<std::unique_ptr<const CsvDataset>> Create(const std::string& path,
                                                                  const CsvColumns& columns);

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

 private:
  class Builder;

  CsvDataset() = default;

  // Const after Create. [examples, dense_features], [examples, fields], [examples].
  std::vector<float> dense_;
  std::vector<uint64_t> keys_;
  std::vector<int32_t> labels_;
  DatasetInfo info_;
  uint64_t fingerprint_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_DATASET_H_
