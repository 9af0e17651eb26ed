#include "worker/nn/transformer/arrays/transformer_memory.h"

#include "common/compute/host_ops.h"
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

class TransformerMemoryTest : public ::testing::Test {
 protected:
  HostOps ops_;
  ComputeContext context_ = {.ops = ops_, .rows = kRows};
  TransformerMemory memory_{kShape, DType::kF32, Recompute::kNone};
};

TEST_F(TransformerMemoryTest, StaysWhereItIs) {
  memory_.Prepare(context_);
  const void* qkv = memory_.arrays().blocks[1].qkv;
  memory_.Prepare(context_);
  EXPECT_EQ(memory_.arrays().blocks[1].qkv, qkv);
  // A shorter last batch, then whole ones again.
  context_.rows.sequences = 1;
  memory_.Prepare(context_);
  context_.rows.sequences = 2;
  memory_.Prepare(context_);
  EXPECT_EQ(memory_.arrays().blocks[1].qkv, qkv);
}

TEST_F(TransformerMemoryTest, IsLaidOutForEachPassAndWayOfBackward) {
  memory_.Prepare(context_);
  const size_t training = memory_.bytes();
  EXPECT_NE(memory_.arrays().stream_gradient, nullptr);
  context_.split_backward = true;
  memory_.Prepare(context_);
  EXPECT_GT(memory_.bytes(), training);
  context_.pass = Pass::kEvaluation;
  memory_.Prepare(context_);
  EXPECT_EQ(memory_.arrays().stream_gradient, nullptr);
  EXPECT_LT(memory_.bytes(), training);
}

}  // namespace
}  // namespace muster
