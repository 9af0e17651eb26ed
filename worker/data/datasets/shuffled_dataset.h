#ifndef MUSTER_WORKER_DATA_DATASETS_SHUFFLED_DATASET_H_
#define MUSTER_WORKER_DATA_DATASETS_SHUFFLED_DATASET_H_

#include <cstdint>
#include <memory>

#include "worker/data/dataset.h"
#include "worker/data/sampling/example_order.h"

namespace muster {

// The examples of another dataset in a random order, drawn by a seed: the held-out end is then a
// random share (DataSpec.shuffle_holdout). Takes constant memory. The fingerprint depends on the
// seed, since another seed holds out other examples. Thread-safe.
class ShuffledDataset final : public Dataset {
 public:
  // REQUIRES: `dataset` has an example.
  ShuffledDataset(std::unique_ptr<const Dataset> dataset, uint64_t seed);

  const DatasetInfo& info() const override { return dataset_->info(); }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

 private:
  const std::unique_ptr<const Dataset> dataset_;
  const ExampleOrder order_;
  const uint64_t fingerprint_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_SHUFFLED_DATASET_H_
