#ifndef MUSTER_WORKER_STRATEGY_GROUP_SHARD_CASES_H_
#define MUSTER_WORKER_STRATEGY_GROUP_SHARD_CASES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/partition/dense_layout.h"
#include "common/partition/shard_layout.h"
#include "common/partition/tensor_spec.h"
#include "worker/strategy/group/gradients/unit_memory.h"

namespace muster {

// A model for tests, divided into shards. It has units of very different sizes, one without
// tensors, one of a single element, 16-bit parts, and tensors that are tied both ways: the last
// unit's to the first's, and an early unit's to a later one's.
struct ShardCase {
  // Sizes of the larger tensors are multiplied by `scale`.
  explicit ShardCase(int shard_count, int64_t scale = 1);

  ShardedTensors sharded() const { return {layout, shards, tensors}; }
  // Returns the index of the tensor whose storage the tensor has.
  int OwnerOf(int tensor) const;

  static constexpr int kUnits = 7;

  const std::vector<TensorSpec> tensors;
  const DenseLayout layout;
  const ShardLayout shards;
};

// Returns a number in [-1, 1) that depends on `seed` and `index` alone.
float CaseValue(uint64_t seed, uint64_t index);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_SHARD_CASES_H_
