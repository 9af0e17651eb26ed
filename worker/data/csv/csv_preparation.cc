#include "worker/data/csv/csv_preparation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "worker/data/parsing/data_error.h"

namespace muster {

void ColumnMoments::Add(absl::Span<const double> row) {
  for (size_t i = 0; i < row.size(); ++i) {
    if (std::isnan(row[i])) continue;
    Column& column = columns_[i];
    const double delta = row[i] - column.mean;
    column.mean += delta / ++column.count;
    column.squares += delta * (row[i] - column.mean);
  }
}

double ColumnMoments::deviation(size_t column) const {
  const Column& of = columns_[column];
  return of.squares > 0 ? std::sqrt(of.squares / of.count) : 0;
}

float Prepared(double value, const v1::NumericColumn& column) {
  if (std::isnan(value) || column.deviation() == 0) return 0;
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(
      std::clamp((value - column.mean()) / column.deviation(), -kMost, kMost));
}

absl::Status CheckPreparation(const v1::CsvPreparation& preparation,
                              const std::vector<std::string>& numeric) {
  if (preparation.numeric_size() != static_cast<int>(numeric.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the weights were trained on ", preparation.numeric_size(),
        " numeric columns, but data.csv.numeric names ", numeric.size(), "; name the same ones"));
  }
  for (int i = 0; i < preparation.numeric_size(); ++i) {
    const v1::NumericColumn& column = preparation.numeric(i);
    if (column.name() != numeric[i]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "number ", i + 1, " of the numeric columns that the weights were trained on is ",
          Quote(column.name()), ", but that of data.csv.numeric is ", Quote(numeric[i]),
          "; name the same columns in the same order"));
    }
    if (!std::isfinite(column.mean()) || !std::isfinite(column.deviation()) ||
        column.deviation() < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the weights come with the mean ", column.mean(), " and the deviation ",
                       column.deviation(), " of numeric column ", Quote(column.name()),
                       ", which are impossible; take another checkpoint"));
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
