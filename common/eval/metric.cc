#include "common/eval/metric.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

absl::StatusOr<double> RegressionMetric(absl::string_view metric, const RegressionSums& sums,
                                        double examples) {
  if (metric == "rmse") return std::sqrt(sums.squared_errors / examples);
  if (metric == "mae") return sums.absolute_errors / examples;
  const double total = sums.squared_deviations - sums.deviations * sums.deviations / examples;
  if (total > 0) return 1 - sums.squared_errors / total;
  return absl::FailedPreconditionError(
      "r2 is undefined where all targets are equal; evaluate on data whose targets differ, or use "
      "the metric rmse");
}

}  // namespace

bool HigherIsBetter(absl::string_view metric) {
  return metric != "loss" && metric != "perplexity" && metric != "bits_per_byte" &&
         metric != "rmse" && metric != "mae";
}

bool IsOfRegression(absl::string_view metric) {
  return metric == "rmse" || metric == "mae" || metric == "r2";
}

absl::StatusOr<double> MetricFromSums(absl::string_view metric, const EvaluationSums& sums) {
  if (metric != "loss" && metric != "perplexity" && metric != "accuracy" &&
      metric != "bits_per_byte" && !IsOfRegression(metric)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Metric \"", metric, "\" does not follow from sums over examples; ",
                     "loss, perplexity, accuracy, bits_per_byte, rmse, mae and r2 do."));
  }
  if (sums.labels == 0 || (metric == "bits_per_byte" && !(sums.text_bytes > 0))) {
    return absl::FailedPreconditionError(
        absl::StrCat("Metric \"", metric, "\" over 0 examples is undefined; hold out more data"));
  }
  const double labels = static_cast<double>(sums.labels);
  if (IsOfRegression(metric)) return RegressionMetric(metric, sums.regression, labels);
  if (metric == "accuracy") return static_cast<double>(sums.correct) / labels;
  if (metric == "bits_per_byte") return sums.loss_sum / sums.text_bytes / std::log(2.0);
  const double loss = sums.loss_sum / labels;
  return metric == "loss" ? loss : std::exp(loss);
}

}  // namespace muster
