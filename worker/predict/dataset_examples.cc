#include "worker/predict/dataset_examples.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {

DatasetExamples::DatasetExamples(std::unique_ptr<const Dataset> dataset)
    : dataset_(std::move(dataset)), info_(dataset_->info()) {
  info_.examples = 0;
  if (!info_.target.has_value()) info_.classes = 2;
}

absl::Status DatasetExamples::Next(int64_t most, Batch& batch, std::vector<std::string>& lines) {
  const int64_t end = std::min(next_ + most, dataset_->info().examples);
  std::vector<int64_t> indices;
  lines.clear();
  for (; next_ < end; ++next_) {
    indices.push_back(next_);
    lines.push_back(absl::StrCat(next_));
  }
  MUSTER_RETURN_IF_ERROR(dataset_->Read(indices, batch));
  std::fill(batch.labels.begin(), batch.labels.end(), 0);
  std::fill(batch.targets.begin(), batch.targets.end(), 0.0f);
  return absl::OkStatus();
}

}  // namespace muster
