#ifndef MUSTER_WORKER_RUNTIME_TRAINING_EXPERT_LOADS_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_EXPERT_LOADS_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace muster {

// The least and the most loaded expert of any block: its tokens over the mean of its block's.
struct LoadRange {
  double lowest = 0;
  double highest = 0;
};

// Returns the range of loads [blocks, experts]; nothing if no expert of any block has tokens.
// Blocks whose experts have none are dense, or another stage's.
absl::optional<LoadRange> LoadRangeOf(absl::Span<const uint64_t> loads, int64_t experts);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_EXPERT_LOADS_H_
