#include "worker/data/csv/csv_preparation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/text/data_error.h"

namespace muster {

const v1::NumericColumn& TargetColumn(const v1::CsvPreparation& preparation) {
  return *preparation.numeric().rbegin();
}

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

void AddLearned(const std::vector<std::string>& numbers, const ColumnMoments& moments,
                LabelKind labels, v1::CsvPreparation& preparation) {
  for (size_t column = 0; column < numbers.size(); ++column) {
    v1::NumericColumn& learned = *preparation.add_numeric();
    learned.set_name(numbers[column]);
    learned.set_mean(moments.mean(column));
    learned.set_deviation(moments.deviation(column));
  }
  if (labels == LabelKind::kClass) return;
  v1::NumericColumn& target = *preparation.mutable_numeric()->rbegin();
  if (target.deviation() == 0) target.set_deviation(1);
}

TargetScale ScaleOfTarget(const v1::CsvPreparation& preparation) {
  const v1::NumericColumn& target = TargetColumn(preparation);
  return {.mean = target.mean(), .deviation = target.deviation()};
}

absl::Status CheckPreparation(const v1::CsvPreparation& preparation,
                              const std::vector<std::string>& numbers, LabelKind labels) {
  const bool predicts_number = labels == LabelKind::kNumber;
  if (preparation.numeric_size() != static_cast<int>(numbers.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the weights were trained on ", preparation.numeric_size(),
        " numeric columns, but data.csv.numeric names ", numbers.size() - predicts_number,
        predicts_number ? " and the label is one more; name the same ones, and start from weights "
                          "of a model that predicts the label as a number"
                        : "; name the same ones"));
  }
  for (int i = 0; i < preparation.numeric_size(); ++i) {
    const v1::NumericColumn& column = preparation.numeric(i);
    const bool is_target = predicts_number && &column == &TargetColumn(preparation);
    if (column.name() != numbers[i] && is_target) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the weights were trained to predict the number in column ", Quote(column.name()),
          ", but data.csv.label is ", Quote(numbers[i]), "; name the same column"));
    }
    if (column.name() != numbers[i]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "number ", i + 1, " of the numeric columns that the weights were trained on is ",
          Quote(column.name()), ", but that of data.csv.numeric is ", Quote(numbers[i]),
          "; name the same columns in the same order"));
    }
    if (!std::isfinite(column.mean()) || !std::isfinite(column.deviation()) ||
        column.deviation() < 0 || (is_target && column.deviation() == 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the weights come with the mean ", column.mean(), " and the deviation ",
                       column.deviation(), " of numeric column ", Quote(column.name()),
                       ", which are impossible; take another checkpoint"));
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
