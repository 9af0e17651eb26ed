#include "worker/device/memory/device_memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/round_up.h"
#include "common/kernels/device/device_sizes.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TransformerShape Gpt2Small() {
  TransformerShape shape;
  shape.layers = 12;
  shape.width = 768;
  shape.heads = shape.kv_heads = 12;
  shape.feed_forward = 3072;
  shape.vocabulary = 50304;
  shape.context = 1024;
  return shape;
}

DeviceExtents ExtentsOf(const TransformerShape& shape, const DeviceComputeOptions& options) {
  return DeviceExtentsOf(shape, DeviceParameters::Create(shape).value(), options);
}

DeviceMemoryBytes BytesOf(const DeviceComputeOptions& options) {
  return PlanDeviceMemory(ExtentsOf(Gpt2Small(), options));
}

DeviceComputeOptions Options() {
  DeviceComputeOptions options;
  options.sequences = 16;
  options.length = 1024;
  return options;
}

TEST(DeviceParametersTest, TensorsBeginOnCacheLinesAndDoNotOverlap) {
  TransformerShape shape = Gpt2Small();
  shape.layers = 2;
  shape.width = 36;
  shape.heads = shape.kv_heads = 3;
  shape.feed_forward = 23;
  shape.vocabulary = 37;
  const auto parameters = DeviceParameters::Create(shape);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  std::vector<std::pair<uint64_t, uint64_t>> places;
  const auto& specs = parameters->tensors().specs;
  for (size_t t = 0; t < specs.size(); ++t) {
    const uint64_t begin = parameters->offset(static_cast<int>(t));
    EXPECT_EQ(begin % 64, 0) << specs[t].name;
    if (!specs[t].tied_to.empty()) {
      EXPECT_EQ(begin, parameters->offset(parameters->tensors().embedding));
      continue;
    }
    places.push_back({begin, begin + specs[t].elements()});
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) EXPECT_LE(places[i - 1].second, places[i].first);
  EXPECT_LE(places.back().second, parameters->elements());
  // Blocks cover the space, each of one group.
  uint64_t end = 0;
  for (const DenseLayout::Block& stretch : parameters->layout().blocks()) {
    EXPECT_EQ(stretch.begin, end);
    end = stretch.end;
    for (size_t t = 0; t < specs.size(); ++t) {
      const uint64_t begin = parameters->offset(static_cast<int>(t));
      if (begin < stretch.begin || begin >= stretch.end || !specs[t].tied_to.empty()) continue;
      EXPECT_EQ(specs[t].weight_decay, stretch.weight_decay) << specs[t].name;
    }
  }
  EXPECT_EQ(end, parameters->elements());
}

TEST(DeviceMemoryPlanTest, MomentsAreWhereTheOptimizerIs) {
  DeviceComputeOptions options = Options();
  const DeviceMemoryBytes here = BytesOf(options);
  options.optimizer = OptimizerPlace::kElsewhere;
  const DeviceMemoryBytes elsewhere = BytesOf(options);
  EXPECT_EQ(elsewhere.optimizer_state, 0);
  EXPECT_EQ(PlanDeviceState(ExtentsOf(Gpt2Small(), options), nullptr).m, nullptr);
  EXPECT_EQ(elsewhere.total + here.optimizer_state, here.total);
}

TEST(DeviceMemoryPlanTest, SixteenBytesAParameterAndTwoForTheLowPrecisionCopy) {
  const DeviceMemoryBytes bytes = BytesOf(Options());
  const size_t parameters = 124'475'904;
  EXPECT_EQ(bytes.weights, 4 * parameters);
  EXPECT_EQ(bytes.gradients, 4 * parameters);
  EXPECT_EQ(bytes.optimizer_state, 8 * parameters);
  EXPECT_EQ(bytes.rounded_weights, 2 * parameters);
  DeviceComputeOptions f32 = Options();
  f32.type = DType::kF32;
  EXPECT_EQ(BytesOf(f32).rounded_weights, 0);
}

TEST(DeviceMemoryPlanTest, ExtentsSayHowMuchIsThereAtATime) {
  DeviceComputeOptions options = Options();
  options.recompute = Recompute::kSelective;
  DeviceExtents extents = ExtentsOf(Gpt2Small(), options);
  extents.activations.logit_rows = 100;
  const DevicePassMemory passes = PlanDevicePasses(extents, nullptr);
  EXPECT_EQ(passes.sets[0].arrays[0].blocks[0].norm1_out,
            passes.sets[0].arrays[0].blocks[1].norm1_out);
  EXPECT_NE(passes.sets[0].arrays[0].blocks[0].qkv, passes.sets[0].arrays[0].blocks[1].qkv);
  EXPECT_EQ(passes.sets[0].arrays[0].head.logit_rows, 100);
  EXPECT_EQ(passes.bytes.logits, 100 * 50304 * 4);
}

TEST(DeviceMemoryPlanTest, EveryByteIsCountedAndArraysAreAligned) {
  std::byte* const base = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);
  const DeviceExtents extents = ExtentsOf(Gpt2Small(), Options());
  const DeviceMemoryBytes b = PlanDeviceMemory(extents);
  EXPECT_EQ(b.total, b.weights + b.rounded_weights + b.gradients + b.optimizer_state +
                         b.activations + b.logits + b.scratch);
  const DeviceState state = PlanDeviceState(extents, base);
  const DevicePassMemory passes = PlanDevicePasses(extents, base);
  EXPECT_EQ(b.total, state.bytes.total + passes.bytes.total);
  const auto expect_within = [&](const std::vector<const void*>& begins, size_t bytes) {
    for (const void* each : begins) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(each) % 256, 0);
      EXPECT_GE(each, base);
      EXPECT_LT(each, base + bytes);
    }
  };
  expect_within({state.weights, state.gradients, state.control, state.squares_scratch},
                state.bytes.total);
  expect_within({passes.sets[0].batch.tokens, passes.sums, passes.sets[0].arrays[0].head.logits,
                 passes.sets[0].arrays[0].blocks[5].qkv, passes.scratch.workspace},
                passes.bytes.total);
  // Batches are copied as one piece.
  const auto end = [](const auto* array, int64_t elements) {
    return RoundUp(reinterpret_cast<uintptr_t>(array + elements), 256);
  };
  const DeviceBatchArrays& batch = passes.sets[0].batch;
  EXPECT_EQ(end(batch.tokens, 16 * 1024), end(batch.labels, 0));
  EXPECT_EQ(end(batch.labels, 16 * 1024), end(batch.positions, 0));
  EXPECT_EQ(end(batch.positions, 16 * 1024), end(batch.token_order, 0));
  EXPECT_EQ(end(batch.token_order, TokenOrderSize(16 * 1024)), end(batch.position_order, 0));
  EXPECT_EQ(end(batch.position_order, TokenOrderSize(16 * 1024)),
            reinterpret_cast<uintptr_t>(batch.record));
  EXPECT_EQ(passes.rotary, nullptr);
}

}  // namespace
}  // namespace muster
