#include "worker/data/datasets/shuffled_dataset.h"

#include <utility>
#include <vector>

#include "common/base/fingerprint.h"

namespace muster {
ShuffledDataset::ShuffledDataset(std::unique_ptr<const Dataset> dataset, uint64_t seed)
    : dataset_(std::move(dataset)),
      order_(seed, dataset_->info().examples),
      fingerprint_(MixBits(dataset_->fingerprint() ^ MixBits(seed + 1))) {}

absl::Status ShuffledDataset::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  std::vector<int64_t> drawn;
  drawn.reserve(indices.size());
  for (const int64_t index : indices) drawn.push_back(order_(index));
  return dataset_->Read(drawn, batch);
}

}  // namespace muster
