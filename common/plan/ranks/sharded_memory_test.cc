#include "common/plan/ranks/sharded_memory.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Six units of 4,096 elements, which slices divide evenly.
ShardedMemory Shards(const Sharding& sharding, DType compute = DType::kF32) {
  std::vector<TensorSpec> tensors(6);
  for (int unit = 0; unit < 6; ++unit) {
    tensors[unit].name = absl::StrCat("w", unit);
    tensors[unit].shape = {64, 64};
    tensors[unit].unit = unit;
    tensors[unit].compute = compute;
  }
  const auto memory = PlanShardedMemory(tensors, sharding);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return memory.value_or(ShardedMemory());
}

TEST(ShardedMemoryTest, StagesDivideWhatTheySay) {
  constexpr uint64_t kUnit = 4096, kAll = 6 * kUnit;
  ShardedMemory memory = Shards({.stage = 1, .shards = 4});
  EXPECT_EQ(memory.stepped_elements, kAll / 4);
  EXPECT_EQ(memory.weight_slices, 0);
  EXPECT_EQ(memory.gathered_weights, 4 * kAll);
  EXPECT_EQ(memory.gradients, 4 * kAll);
  EXPECT_EQ(memory.gradient_sums, 0);
  EXPECT_EQ(memory.shared_in_group, 8 * kAll);
  memory = Shards({.stage = 2, .shards = 4});
  EXPECT_EQ(memory.weight_slices, 0);
  EXPECT_EQ(memory.gathered_weights, 4 * kAll);
  EXPECT_EQ(memory.gradients, 2 * 4 * kUnit);
  EXPECT_EQ(memory.gradient_sums, 4 * kAll / 4);
  memory = Shards({.stage = 3, .shards = 4});
  EXPECT_EQ(memory.weight_slices, 4 * kAll / 4);
  EXPECT_EQ(memory.gathered_weights, 2 * 4 * kUnit);
  EXPECT_EQ(memory.gradients, 2 * 4 * kUnit);
  EXPECT_EQ(memory.gradient_sums, 4 * kAll / 4);
  EXPECT_EQ(memory.shared_in_group, 2 * 8 * kUnit);
  EXPECT_EQ(memory.shared_with_replica, 0);
  EXPECT_EQ(memory.wire, 0);
}

TEST(ShardedMemoryTest, SixteenBitWeightsAreSteppedElsewhere) {
  constexpr uint64_t kUnit = 4096, kAll = 6 * kUnit;
  for (const uint32_t stage : {1, 2, 3}) {
    const ShardedMemory memory = Shards({.stage = stage, .shards = 4}, DType::kBf16);
    EXPECT_EQ(memory.weight_slices, 4 * kAll / 4);
    EXPECT_EQ(memory.gathered_weights, 2 * (stage == 3 ? 2 * kUnit : kAll));
    EXPECT_EQ(memory.gradients, 4 * (stage == 1 ? kAll : 2 * kUnit));
  }
}

TEST(ShardedMemoryTest, ReplicasAndTheWireTakeTheirOwn) {
  constexpr uint64_t kUnit = 4096, kAll = 6 * kUnit;
  ShardedMemory memory = Shards({.stage = 1, .shards = 2, .replicas = 3, .half_wire = true});
  EXPECT_EQ(memory.gradient_sums, 0);
  EXPECT_EQ(memory.wire, 2 * kAll + 2 * kAll / 2);
  EXPECT_EQ(memory.shared_in_group, (4 + 4 + 2) * kAll);
  EXPECT_EQ(memory.shared_with_replica, 2 * kAll / 2);
  memory = Shards({.stage = 2, .shards = 2, .replicas = 3, .half_wire = true});
  EXPECT_EQ(memory.gradient_sums, 4 * kAll / 2);
  EXPECT_EQ(memory.wire, 2 * 2 * kUnit + 2 * kAll / 2);
  EXPECT_EQ(memory.shared_with_replica, (4 + 2) * kAll / 2);
  memory = Shards({.stage = 3, .shards = 2, .half_wire = true});
  EXPECT_EQ(memory.wire, 2 * 2 * kUnit);
  EXPECT_EQ(memory.shared_with_replica, 0);
}

TEST(ShardedMemoryTest, KeptUnitsHaveMemoryOfTheirOwn) {
  constexpr uint64_t kUnit = 4096, kAll = 6 * kUnit;
  const auto gathered = [](uint64_t kept_bytes) {
    const ShardedMemory memory = Shards({.stage = 3, .shards = 4, .kept_bytes = kept_bytes});
    EXPECT_EQ(memory.gradients, 2 * 4 * kUnit);
    EXPECT_EQ(memory.weight_slices, 4 * kAll / 4);
    return memory.gathered_weights;
  };
  EXPECT_EQ(gathered(4 * kUnit - 1), 4 * 2 * kUnit);
  EXPECT_EQ(gathered(4 * kUnit), 4 * 3 * kUnit);
  EXPECT_EQ(gathered(4 * kAll), 4 * kAll);
}

}  // namespace
}  // namespace muster
