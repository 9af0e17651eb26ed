#ifndef MUSTER_WORKER_DATA_SAMPLING_EXAMPLE_ORDER_H_
#define MUSTER_WORKER_DATA_SAMPLING_EXAMPLE_ORDER_H_

#include <cstdint>
#include <limits>

#include "absl/types/optional.h"
#include "worker/data/sampling/permutation.h"

namespace muster {

// The order of a dataset's examples, whose end is held out: the order of the data, or a random one
// drawn by a seed (DataSpec.shuffle_holdout). Immutable, so thread-safe; cheap to copy.
class ExampleOrder {
 public:
  // Makes the order of the data.
  ExampleOrder() = default;
  // Draws a random order of so many examples. REQUIRES: examples > 0.
  ExampleOrder(uint64_t seed, int64_t examples) : drawn_(Permutation(seed, kEpoch, examples)) {}

  // Returns the example at a position. REQUIRES: position in [0, examples).
  int64_t operator()(int64_t position) const {
    return drawn_.has_value() ? (*drawn_)(position) : position;
  }

 private:
  // Epochs of training count from 0, so no epoch has this order.
  static constexpr uint64_t kEpoch = std::numeric_limits<uint64_t>::max();

  absl::optional<Permutation> drawn_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_EXAMPLE_ORDER_H_
