#include "common/eval/metric.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace muster {

bool HigherIsBetter(absl::string_view metric) {
  return metric != "loss" && metric != "bits_per_byte";
}

absl::StatusOr<double> MetricFromSums(absl::string_view metric, const EvaluationSums& sums) {
  if (metric != "loss" && metric != "accuracy" && metric != "bits_per_byte") {
    return absl::InvalidArgumentError(absl::StrCat("Metric \"", metric,
                                                   "\" does not follow from sums over examples; ",
                                                   "loss, accuracy and bits_per_byte do."));
  }
  if (sums.examples == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Metric \"", metric, "\" over 0 examples is undefined; hold out more data."));
  }
  const double examples = static_cast<double>(sums.examples);
  if (metric == "accuracy") return static_cast<double>(sums.correct) / examples;
  const double loss = sums.loss_sum / examples;
  return metric == "loss" ? loss : loss / std::log(2.0);
}

}  // namespace muster
