#ifndef MUSTER_WORKER_DATA_CSV_CSV_PREPARATION_H_
#define MUSTER_WORKER_DATA_CSV_CSV_PREPARATION_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/data_preparation.pb.h"
#include "worker/data/dataset.h"

namespace muster {

// CsvPreparation keeps the columns of numbers in the order of data.csv.numeric. Where labels are
// numbers, it keeps the label as one more column, which only TargetColumn tells from the others.

// Returns the label's column. REQUIRES: labels are numbers.
const v1::NumericColumn& TargetColumn(const v1::CsvPreparation& preparation);

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

// Adds what was learned of columns of numbers to a preparation. If labels are numbers, the last
// column is the label's; its deviation becomes 1 if all its values are equal, so that others are
// still told apart.
void AddLearned(const std::vector<std::string>& numbers, const ColumnMoments& moments,
                LabelKind labels, v1::CsvPreparation& preparation);

// Returns how labels are normalised. REQUIRES: labels are numbers.
TargetScale ScaleOfTarget(const v1::CsvPreparation& preparation);

// Checks that a preparation, which came with weights, is for these columns of numbers; if labels
// are numbers, the last one is the label's. InvalidArgument: it is for other columns, a mean or
// deviation is not finite, a deviation negative or the label's not above 0.
absl::Status CheckPreparation(const v1::CsvPreparation& preparation,
                              const std::vector<std::string>& numbers, LabelKind labels);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_PREPARATION_H_
