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

size_t Bytes(Recompute recompute, Pass pass, DType type = DType::kF32) {
  TransformerMemory memory(kShape, type, recompute);
  memory.Prepare(kRows, pass);
  return memory.bytes();
}

TEST(TransformerMemoryTest, RecomputationTakesLess) {
  const size_t none = Bytes(Recompute::kNone, Pass::kTraining);
  const size_t selective = Bytes(Recompute::kSelective, Pass::kTraining);
  const size_t full = Bytes(Recompute::kFull, Pass::kTraining);
  const size_t evaluation = Bytes(Recompute::kNone, Pass::kEvaluation);
  // Each further block: N tokens · (3 C + F + the statistics) fewer, then Q + U + C fewer.
  const size_t N = 64;
  EXPECT_EQ(none - selective, 2 * 4 * N * (3 * 64 + 128 + 4 + 4));
  EXPECT_EQ(selective - full, 2 * 4 * N * (128 + 128 + 64));
  EXPECT_LT(evaluation, full);
  EXPECT_LT(Bytes(Recompute::kNone, Pass::kTraining, DType::kBf16), 0.8 * none);
}

TEST(TransformerMemoryTest, BlocksShareWhatIsMadeAgain) {
  TransformerMemory memory(kShape, DType::kF32, Recompute::kSelective);
  memory.Prepare(kRows, Pass::kTraining);
  EXPECT_EQ(memory.block(0).norm1_out, memory.block(2).norm1_out);
  EXPECT_EQ(memory.block(0).attention, memory.block(2).attention);
  EXPECT_NE(memory.block(0).qkv, memory.block(2).qkv);
  EXPECT_NE(memory.block(0).norm1.sum, memory.block(2).norm1.sum);
  EXPECT_NE(memory.block(0).norm2.sum, memory.block(2).norm2.sum);
}

TEST(TransformerMemoryTest, StaysWhereItIs) {
  TransformerMemory memory(kShape, DType::kF32, Recompute::kNone);
  memory.Prepare(kRows, Pass::kTraining);
  const void* qkv = memory.block(1).qkv;
  memory.Prepare(kRows, Pass::kTraining);
  EXPECT_EQ(memory.block(1).qkv, qkv);
  // A shorter last batch, then whole ones again.
  memory.Prepare({.sequences = 1, .length = 32}, Pass::kTraining);
  memory.Prepare(kRows, Pass::kTraining);
  EXPECT_EQ(memory.block(1).qkv, qkv);
}

TEST(TransformerMemoryTest, AnEvaluationHasNoGradients) {
  TransformerMemory memory(kShape, DType::kF32, Recompute::kNone);
  memory.Prepare(kRows, Pass::kEvaluation);
  EXPECT_EQ(memory.stream_gradient(), nullptr);
  EXPECT_EQ(memory.block(0).qkv, memory.block(1).qkv);
}

}  // namespace
}  // namespace muster
