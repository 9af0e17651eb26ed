#ifndef MUSTER_WORKER_DATA_CSV_CSV_PREPARATION_H_
#define MUSTER_WORKER_DATA_CSV_CSV_PREPARATION_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/data_preparation.pb.h"

namespace muster {

// Mean and deviation of each of some columns, over the rows added: by Welford's recurrences, which
// keep the differences of large numbers, and are exactly 0 for a column of equal values. Values
// that are missing do not count. Not thread-safe.
class ColumnMoments {
 public:
  explicit ColumnMoments(size_t columns) : columns_(columns) {}

  // REQUIRES: a row has a value for each column, NaN if it is missing.
  void Add(absl::Span<const double> row);

  // Deviation 0: the column's values are all the same, or missing.
  double mean(size_t column) const { return columns_[column].mean; }
  double deviation(size_t column) const;

 private:
  struct Column {
    double count = 0;
    double mean = 0;
    double squares = 0;
  };
  std::vector<Column> columns_;
};

// Returns what the model sees of a value: (value - mean) / deviation; 0 for a missing one, and for
// all of a column that had one value in training, of which nothing could be learned. Finite: what
// would lie beyond the largest float, far from all that was trained on, becomes that.
float Prepared(double value, const v1::NumericColumn& column);

// Whether a preparation, which came with weights, is for these columns. InvalidArgument: it is for
// other ones, or its numbers cannot be computed with.
absl::Status CheckPreparation(const v1::CsvPreparation& preparation,
                              const std::vector<std::string>& numeric);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_PREPARATION_H_
