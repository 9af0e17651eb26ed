#include "worker/data/datasets/synthetic_classification.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"

namespace muster {
namespace {

constexpr uint64_t kMostClassificationExamples = uint64_t{1} << 40;
constexpr uint64_t kMostMeanFloats = uint64_t{1} << 26;

absl::Status Check(const SyntheticClassificationOptions& options) {
  if (options.examples == 0 || options.examples > kMostClassificationExamples) {
    return absl::InvalidArgumentError(absl::StrCat("data.synthetic_classification.examples is ",
                                                   options.examples, "; it must be from 1 to ",
                                                   kMostClassificationExamples));
  }
  if (options.features == 0) {
    return absl::InvalidArgumentError(
        "data.synthetic_classification.features is 0; it must be at least 1");
  }
  if (options.classes < 2) {
    return absl::InvalidArgumentError(absl::StrCat("data.synthetic_classification.classes is ",
                                                   options.classes, "; it must be at least 2"));
  }
  if (uint64_t{options.features} * options.classes > kMostMeanFloats) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.synthetic_classification.features is ", options.features, " and .classes ",
        options.classes, "; their product must be at most ", kMostMeanFloats));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SyntheticClassification>> SyntheticClassification::Create(
    const SyntheticClassificationOptions& options) {
  if (absl::Status status = Check(options); !status.ok()) return status;
  return absl::WrapUnique<const SyntheticClassification>(new SyntheticClassification(options));
}

SyntheticClassification::SyntheticClassification(const SyntheticClassificationOptions& options)
    : labels_(options.seed, "synthetic_classification", "labels"),
      noise_(options.seed, "synthetic_classification", "noise") {
  const Philox means(options.seed, "synthetic_classification", "means");
  means_.reserve(size_t{options.features} * options.classes);
  for (uint32_t c = 0; c < options.classes; ++c) {
    for (uint32_t j = 0; j < options.features; ++j) means_.push_back(means.Normal(j, c));
  }
  info_.examples = static_cast<int64_t>(options.examples);
  info_.dense_features = options.features;
  info_.classes = options.classes;
  fingerprint_ =
      Fingerprint(absl::StrCat("synthetic_classification/1 ", options.examples, " ",
                               options.features, " ", options.classes, " ", options.seed));
}

absl::Span<const float> SyntheticClassification::mean(int32_t label) const {
  return absl::MakeConstSpan(means_).subspan(label * info_.dense_features, info_.dense_features);
}

absl::Status SyntheticClassification::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  batch.Clear();
  batch.examples = static_cast<int64_t>(indices.size());
  batch.dense.reserve(indices.size() * info_.dense_features);
  for (const int64_t index : indices) {
    const auto label = static_cast<int32_t>(labels_.Below(info_.classes, index));
    const absl::Span<const float> centre = mean(label);
    for (size_t j = 0; j < centre.size(); ++j) {
      batch.dense.push_back(centre[j] + noise_.Normal(index, j));
    }
    batch.labels.push_back(label);
  }
  return absl::OkStatus();
}

}  // namespace muster
