#include "worker/nn/transformer/transformer_memory.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

const TransformerShape kShape = {.layers = 3,
                                 .width = 64,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .feed_forward = 128,
                                 .vocabulary = 100,
                                 .context = 32};
constexpr TokenRows kRows = {.sequences = 2, .length = 32};

TEST(TransformerMemoryTest, StaysWhereItIs) {
  TransformerMemory memory(kShape, DType::kF32, Recompute::kNone);
  memory.Prepare(kRows, Pass::kTraining);
  const void* qkv = memory.arrays().blocks[1].qkv;
  memory.Prepare(kRows, Pass::kTraining);
  EXPECT_EQ(memory.arrays().blocks[1].qkv, qkv);
  // A shorter last batch, then whole ones again.
  memory.Prepare({.sequences = 1, .length = 32}, Pass::kTraining);
  memory.Prepare(kRows, Pass::kTraining);
  EXPECT_EQ(memory.arrays().blocks[1].qkv, qkv);
}

TEST(TransformerMemoryTest, IsLaidOutForEachPass) {
  TransformerMemory memory(kShape, DType::kF32, Recompute::kNone);
  memory.Prepare(kRows, Pass::kTraining);
  const size_t training = memory.bytes();
  EXPECT_NE(memory.arrays().stream_gradient, nullptr);
  memory.Prepare(kRows, Pass::kEvaluation);
  EXPECT_EQ(memory.arrays().stream_gradient, nullptr);
  EXPECT_LT(memory.bytes(), training);
}

}  // namespace
}  // namespace muster
