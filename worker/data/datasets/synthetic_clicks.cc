#include "worker/data/datasets/synthetic_clicks.h"

#include <algorithm>
#include <cmath>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"

namespace muster {
namespace {

constexpr uint64_t kMostClicksExamples = uint64_t{1} << 40;
constexpr uint64_t kMostFeatures = 65536;
constexpr uint64_t kMostValues = uint64_t{1} << 48;
// Gives about one click in three examples.
constexpr double kBias = -1;
// Standard deviation of the logit; the best area under the curve is then about 0.85.
constexpr double kLogitSpread = 2;

// Returns a uniform value in [0, 1) with 53 bits, more than a float can tell apart.
double UnitInterval(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

absl::Status Check(const SyntheticClicksOptions& options) {
  const uint64_t features = uint64_t{options.fields} + options.numeric;
  if (options.examples == 0 || options.examples > kMostClicksExamples) {
    return absl::InvalidArgumentError(absl::StrCat("data.synthetic_clicks.examples is ",
                                                   options.examples, "; it must be from 1 to ",
                                                   kMostClicksExamples));
  }
  if (features == 0 || features > kMostFeatures) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.synthetic_clicks.fields is ", options.fields, " and .numeric ",
                     options.numeric, "; together they must be from 1 to ", kMostFeatures));
  }
  if (options.fields > 0 && (options.cardinality == 0 || options.cardinality > kMostValues)) {
    return absl::InvalidArgumentError(absl::StrCat("data.synthetic_clicks.cardinality is ",
                                                   options.cardinality, "; it must be from 1 to ",
                                                   kMostValues));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SyntheticClicks>> SyntheticClicks::Create(
    const SyntheticClicksOptions& options) {
  if (absl::Status status = Check(options); !status.ok()) return status;
  return absl::WrapUnique<const SyntheticClicks>(new SyntheticClicks(options));
}

SyntheticClicks::SyntheticClicks(const SyntheticClicksOptions& options)
    : options_(options),
      field_values_(options.seed, "synthetic_clicks", "field values"),
      field_weights_(options.seed, "synthetic_clicks", "field weights"),
      numeric_features_(options.seed, "synthetic_clicks", "numeric features"),
      label_draws_(options.seed, "synthetic_clicks", "labels"),
      spread_(kLogitSpread / std::sqrt(static_cast<double>(options.fields) + options.numeric)) {
  const Philox numeric_weights(options.seed, "synthetic_clicks", "numeric weights");
  for (uint32_t j = 0; j < options.numeric; ++j) {
    numeric_weights_.push_back(spread_ * numeric_weights.Normal(j));
  }
  info_.examples = static_cast<int64_t>(options.examples);
  info_.dense_features = options.numeric;
  info_.sparse = options.fields > 0;
  info_.fields = options.fields;
  info_.classes = 2;
  fingerprint_ =
      Fingerprint(absl::StrCat("synthetic_clicks/1 ", options.examples, " ", options.fields, " ",
                               options.cardinality, " ", options.numeric, " ", options.seed));
}

uint64_t SyntheticClicks::FieldValue(int64_t index, uint32_t field) const {
  // Inverse of the cumulative distribution ln(v + 1) / ln(cardinality + 1).
  const double u = UnitInterval(field_values_.Uint64(index, field));
  const double value = std::pow(static_cast<double>(options_.cardinality) + 1, u);
  return std::min(static_cast<uint64_t>(value) - 1, options_.cardinality - 1);
}

float SyntheticClicks::NumericFeature(int64_t index, uint32_t feature) const {
  return numeric_features_.Normal(index, feature);
}

double SyntheticClicks::Logit(int64_t index) const {
  double logit = kBias;
  for (uint32_t f = 0; f < options_.fields; ++f) {
    logit += spread_ * field_weights_.Normal(FieldValue(index, f), f);
  }
  for (uint32_t j = 0; j < options_.numeric; ++j) {
    logit += numeric_weights_[j] * NumericFeature(index, j);
  }
  return logit;
}

double SyntheticClicks::TrueProbability(int64_t index) const {
  return 1 / (1 + std::exp(-Logit(index)));
}

int32_t SyntheticClicks::Label(int64_t index) const {
  return UnitInterval(label_draws_.Uint64(index)) < TrueProbability(index) ? 1 : 0;
}

absl::Status SyntheticClicks::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  batch.Clear();
  batch.examples = static_cast<int64_t>(indices.size());
  for (const int64_t index : indices) {
    for (uint32_t j = 0; j < options_.numeric; ++j) {
      batch.dense.push_back(NumericFeature(index, j));
    }
    for (uint32_t f = 0; f < options_.fields; ++f) {
      // Each field has its own key space: a bijection of the values with the field's own start.
      batch.keys.push_back(MixBits(MixBits(f + 1) + FieldValue(index, f)));
    }
    if (options_.fields > 0) batch.offsets.push_back(static_cast<int64_t>(batch.keys.size()));
    batch.labels.push_back(Label(index));
  }
  batch.values.assign(batch.keys.size(), 1.0f);
  return absl::OkStatus();
}

}  // namespace muster
