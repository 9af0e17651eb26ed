#include "worker/device/replica_copy.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/device/device_memory_plan.h"
#include "worker/strategy/tables_schema.h"

namespace muster {
namespace {

TransformerShape Shape(bool tied) {
  TransformerShape shape;
  shape.layers = 2;
  shape.width = 12;
  shape.heads = shape.kv_heads = 2;
  shape.feed_forward = 23;
  shape.vocabulary = 37;
  shape.context = 5;
  shape.tied_head = tied;
  return shape;
}

// Blocks of 15 elements, so that most tensors lie in several, and some blocks hold several.
std::unique_ptr<ShardState> MakeReplica(const TransformerShape& shape) {
  ModelDescription model;
  model.tensors = MakeTransformerTensors(shape).specs;
  model.units = shape.units();
  v1::JobSpec spec;
  spec.mutable_optimizer()->set_name("adamw");
  spec.mutable_optimizer()->set_learning_rate(0.1f);
  spec.mutable_update()->set_block_bytes(60);
  spec.mutable_update()->set_partitions(3);
  spec.set_batch_size(1);
  auto replica = ShardState::Create(MakeTablesSchema(model, spec, 10));
  EXPECT_TRUE(replica.ok()) << replica.status();
  return *std::move(replica);
}

class ReplicaCopyTest : public ::testing::TestWithParam<bool> {};

TEST_P(ReplicaCopyTest, WhatGoesToADeviceComesBackToTheBit) {
  const auto replica = MakeReplica(Shape(GetParam()));
  const ShardState::State state = replica->state();
  std::iota(state.weights.begin(), state.weights.end(), 1.0f);
  std::iota(state.optimizer_state.begin(), state.optimizer_state.end(), 100000.0f);
  const std::vector<float> weights(state.weights.begin(), state.weights.end());
  const std::vector<float> optimizer_state(state.optimizer_state.begin(),
                                           state.optimizer_state.end());

  ASSERT_TRUE(OpenDevice(0).ok());
  const auto stream = DeviceStream::Create().value();
  DeviceParameters places = DeviceParameters::Create(Shape(GetParam())).value();
  DeviceComputeOptions options;
  options.sequences = 1;
  options.length = 5;
  const DeviceExtents extents = DeviceExtentsOf(Shape(GetParam()), places, options);
  const auto spaces = DeviceSpaces::Create(std::move(places), options, extents, *stream);
  ASSERT_TRUE(spaces.ok()) << spaces.status();
  ASSERT_EQ(CopyToDevice(*replica, *stream, **spaces), absl::OkStatus());

  // A tensor has its own values there, not its neighbours'.
  const int embedding = (*spaces)->places().tensors().embedding;
  std::vector<float> values(replica->parameters()[embedding].size());
  ASSERT_TRUE(
      (*spaces)->Read(*stream, DeviceSpace::kWeights, embedding, absl::MakeSpan(values)).ok());
  EXPECT_TRUE(std::equal(values.begin(), values.end(), replica->parameters()[embedding].begin()));

  std::fill(state.weights.begin(), state.weights.end(), 0.0f);
  std::fill(state.optimizer_state.begin(), state.optimizer_state.end(), 0.0f);
  ASSERT_EQ(CopyFromDevice(*stream, **spaces, *replica), absl::OkStatus());
  EXPECT_EQ(std::vector<float>(state.weights.begin(), state.weights.end()), weights);
  EXPECT_EQ(std::vector<float>(state.optimizer_state.begin(), state.optimizer_state.end()),
            optimizer_state);
}

INSTANTIATE_TEST_SUITE_P(Heads, ReplicaCopyTest, ::testing::Bool());

}  // namespace
}  // namespace muster
