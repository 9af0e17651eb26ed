#ifndef MUSTER_WORKER_DATA_CSV_CSV_PREPARATION_H_
#define MUSTER_WORKER_DATA_CSV_CSV_PREPARATION_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/data_preparation.pb.h"

namespace muster {

// Computes mean and deviation of each column over the added rows by Welford's recurrences, which
// keep small differences of large numbers, and give a deviation of exactly 0 for equal values.
// Missing values do not count. Not thread-safe.
class ColumnMoments {
 public:
  explicit ColumnMoments(size_t columns) : columns_(columns) {}

  // Adds a row. REQUIRES: `row` has a value for each column, NaN if the value is missing.
  void Add(absl::Span<const double> row);

  // Return a column's mean and deviation. The deviation is 0 if all values are equal or missing.
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

// Returns what the model sees for a value: (value - mean) / deviation, clamped to the range of a
// float. Returns 0 for a missing value, and in a column with deviation 0, which has nothing to
// learn from.
float Prepared(double value, const v1::NumericColumn& column);

// Checks that a preparation, which came with weights, is for these columns. InvalidArgument: it is
// for other columns, or a mean or deviation is not finite or a deviation negative.
absl::Status CheckPreparation(const v1::CsvPreparation& preparation,
                              const std::vector<std::string>& numeric);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_PREPARATION_H_
