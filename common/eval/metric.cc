#include "common/eval/metric.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace muster {

bool HigherIsBetter(absl::string_view metric) {
  return metric != "loss" && metric != "perplexity" && metric != "bits_per_byte";
}

absl::StatusOr<double> MetricFromSums(absl::string_view metric, const EvaluationSums& sums) {
  if (metric != "loss" && metric != "perplexity" && metric != "accuracy" &&
      metric != "bits_per_byte") {
    return absl::InvalidArgumentError(
        absl::StrCat("Metric \"", metric, "\" does not follow from sums over examples; ",
                     "loss, perplexity, accuracy and bits_per_byte do."));
  }
  if (sums.labels == 0 || (metric == "bits_per_byte" && !(sums.text_bytes > 0))) {
    return absl::FailedPreconditionError(
        absl::StrCat("Metric \"", metric, "\" over 0 examples is undefined; hold out more data"));
  }
  const double labels = static_cast<double>(sums.labels);
  if (metric == "accuracy") return static_cast<double>(sums.correct) / labels;
  if (metric == "bits_per_byte") return sums.loss_sum / sums.text_bytes / std::log(2.0);
  const double loss = sums.loss_sum / labels;
  return metric == "loss" ? loss : std::exp(loss);
}

}  // namespace muster
