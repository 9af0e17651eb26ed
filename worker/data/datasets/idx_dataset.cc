#include "worker/data/datasets/idx_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "worker/data/datasets/idx_file.h"

namespace muster {
namespace {

absl::StatusOr<IdxArray> ReadImages(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(IdxArray images, ReadIdxFile(path));
  if (images.dimensions.size() >= 2) return images;
  return absl::InvalidArgumentError(
      absl::StrCat("IDX file '", path, "' has 1 dimension; images have at least 2, their ",
                   "number first (are images and labels exchanged?)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const IdxDataset>> IdxDataset::Create(const std::string& images,
                                                                     const std::string& labels) {
  MUSTER_ASSIGN_OR_RETURN(IdxArray label_array, ReadIdxFile(labels));
  if (label_array.dimensions.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("IDX file '", labels, "' has ", label_array.dimensions.size(),
                     " dimensions; labels have ", "1 (are images and labels exchanged?)"));
  }
  MUSTER_ASSIGN_OR_RETURN(IdxArray image_array, ReadImages(images));
  if (image_array.dimensions[0] != label_array.dimensions[0]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "IDX file '", images, "' has ", image_array.dimensions[0], " images, '", labels, "' has ",
        label_array.dimensions[0], " labels; name two files that belong together"));
  }
  return absl::WrapUnique<const IdxDataset>(
      new IdxDataset(std::move(image_array.elements), std::move(label_array.elements)));
}

absl::StatusOr<std::unique_ptr<const IdxDataset>> IdxDataset::CreateUnlabelled(
    const std::string& images) {
  MUSTER_ASSIGN_OR_RETURN(IdxArray image_array, ReadImages(images));
  std::string labels(image_array.dimensions[0], 0);
  return absl::WrapUnique<const IdxDataset>(
      new IdxDataset(std::move(image_array.elements), std::move(labels)));
}

IdxDataset::IdxDataset(std::string pixels, std::string labels)
    : pixels_(std::move(pixels)), labels_(std::move(labels)) {
  info_.examples = static_cast<int64_t>(labels_.size());
  info_.dense_features = static_cast<int64_t>(pixels_.size() / labels_.size());
  uint8_t largest = 0;
  for (const char label : labels_) largest = std::max(largest, static_cast<uint8_t>(label));
  info_.classes = std::max(2, largest + 1);
  FingerprintStream fingerprint;
  fingerprint.Add(labels_.data(), labels_.size());
  fingerprint.Add(pixels_.data(), pixels_.size());
  fingerprint_ = fingerprint.Finish();
}

absl::Status IdxDataset::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  batch.Clear();
  batch.examples = static_cast<int64_t>(indices.size());
  const size_t features = info_.dense_features;
  batch.dense.resize(indices.size() * features);
  batch.labels.reserve(indices.size());
  float* out = batch.dense.data();
  for (const int64_t index : indices) {
    const char* const pixels = pixels_.data() + index * features;
    for (size_t i = 0; i < features; ++i) out[i] = static_cast<uint8_t>(pixels[i]) / 255.0f;
    out += features;
    batch.labels.push_back(static_cast<uint8_t>(labels_[index]));
  }
  return absl::OkStatus();
}

}  // namespace muster
