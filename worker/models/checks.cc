#include "worker/models/checks.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr int64_t kMaxUses = 1 << 30;

absl::Status BatchError(const Batch& batch, absl::string_view what, int64_t actual,
                        int64_t expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("A batch of ", batch.examples, " examples has ", actual, " ", what, ", not ",
                   expected, ": it was not read from the data that the model was made for."));
}

}  // namespace

absl::Status CheckField(absl::string_view field, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be from ", low, " to ", high, "."));
}

absl::Status CheckHidden(absl::string_view field, absl::Span<const uint32_t> hidden,
                         int min_layers) {
  if (static_cast<int>(hidden.size()) < min_layers) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is empty; it must name the width of at least one hidden layer."));
  }
  if (hidden.size() > kMaxHiddenLayers) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " names ", hidden.size(), " layers; the limit is ", kMaxHiddenLayers, "."));
  }
  for (size_t i = 0; i < hidden.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(CheckField(absl::StrCat(field, "[", i, "]"), hidden[i], 1, kMaxWidth));
  }
  return absl::OkStatus();
}

absl::Status CheckClasses(absl::string_view field, uint64_t classes, const DatasetInfo& data) {
  if (classes >= static_cast<uint64_t>(data.classes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " gives ", classes,
                                                 " classes, but the labels of the data have ",
                                                 data.classes, "; set it to ", data.classes, "."));
}

std::string DescribeData(const DatasetInfo& data) {
  std::vector<std::string> parts;
  if (data.dense_features > 0)
    parts.push_back(absl::StrCat(data.dense_features, " dense features"));
  if (data.sparse && data.fields > 0) {
    parts.push_back(absl::StrCat(data.fields, " categorical fields"));
  } else if (data.sparse) {
    parts.push_back("sparse features");
  }
  if (data.vocabulary > 0) parts.push_back("text");
  return parts.empty() ? "no features" : absl::StrJoin(parts, " and ");
}

absl::Status CheckLabels(const Batch& batch, int64_t classes) {
  if (batch.examples < 0 || static_cast<int64_t>(batch.labels.size()) != batch.examples) {
    return BatchError(batch, "labels", batch.labels.size(), batch.examples);
  }
  for (int64_t i = 0; i < batch.examples; ++i) {
    if (batch.labels[i] < 0 || batch.labels[i] >= classes) {
      return absl::InvalidArgumentError(
          absl::StrCat("Example ", i, " of a batch has label ", batch.labels[i],
                       "; the model predicts classes 0 to ", classes - 1, "."));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDense(const Batch& batch, int64_t features) {
  const int64_t values = batch.dense.size();
  if (values == batch.examples * features) return absl::OkStatus();
  return BatchError(batch, "dense values", values, batch.examples * features);
}

absl::Status CheckSparse(const Batch& batch) {
  const int64_t uses = batch.keys.size();
  if (static_cast<int64_t>(batch.offsets.size()) != batch.examples + 1) {
    return BatchError(batch, "row offsets", batch.offsets.size(), batch.examples + 1);
  }
  if (static_cast<int64_t>(batch.values.size()) != uses) {
    return BatchError(batch, "sparse values", batch.values.size(), uses);
  }
  if (batch.offsets.front() != 0 || batch.offsets.back() != uses) {
    return BatchError(batch, "sparse keys", uses, batch.offsets.back());
  }
  for (int64_t i = 0; i < batch.examples; ++i) {
    if (batch.offsets[i] > batch.offsets[i + 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("Example ", i, " of a batch has its sparse features at [", batch.offsets[i],
                       ", ", batch.offsets[i + 1], "), which is no range."));
    }
  }
  if (uses >= kMaxUses) {
    return absl::InvalidArgumentError(absl::StrCat("A batch of ", batch.examples, " examples has ",
                                                   uses, " sparse features; the limit is ",
                                                   kMaxUses, ", use a smaller batch."));
  }
  return absl::OkStatus();
}

}  // namespace muster
