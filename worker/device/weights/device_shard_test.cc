#include "worker/device/weights/device_shard.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "common/checkpoint/memory_storage.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"
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
v1::TablesSchema Schema(const TransformerShape& shape) {
  ModelDescription model;
  model.tensors = MakeTransformerTensors(shape).specs;
  model.units = shape.units();
  v1::JobSpec spec;
  spec.mutable_optimizer()->set_name("adamw");
  spec.mutable_optimizer()->set_learning_rate(0.1f);
  spec.mutable_update()->set_block_bytes(60);
  spec.mutable_update()->set_partitions(3);
  spec.set_batch_size(1);
  return MakeTablesSchema(model, spec, 10);
}

class DeviceShardTest : public ::testing::TestWithParam<bool> {};

TEST_P(DeviceShardTest, WhatGoesToADeviceComesBackToTheBit) {
  const v1::TablesSchema schema = Schema(Shape(GetParam()));
  v1::TaskOrder order;
  MemoryStorage storage;
  const auto kept = KeptShard::Create(order, schema, {.storage = &storage});
  ASSERT_TRUE(kept.ok()) << kept.status();
  ShardState& shard = (*kept)->state();
  const ShardState::State state = shard.state();
  std::iota(state.weights.begin(), state.weights.end(), 1.0f);
  std::iota(state.optimizer_state.begin(), state.optimizer_state.end(), 100000.0f);
  const std::vector<float> weights(state.weights.begin(), state.weights.end());
  const std::vector<float> optimizer_state(state.optimizer_state.begin(),
                                           state.optimizer_state.end());

  DeviceOptions options;
  options.shape = Shape(GetParam());
  options.compute.type = DType::kF32;
  options.compute.sequences = 1;
  options.compute.length = 5;
  InProcessGroup alone(1);
  const auto groups =
      RankGroups::Create(MakeHostCommunicator(alone.Join(0), {}).value(), shard.shard()).value();
  const auto device = DeviceShard::Create(order, schema, options, nullptr, **kept);
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_EQ((*device)->Enter(*groups), absl::OkStatus());
  const int embedding = MakeTransformerTensors(options.shape).embedding;
  const std::vector<float> expected(shard.parameters()[embedding].begin(),
                                    shard.parameters()[embedding].end());
  ASSERT_EQ((*device)->Fill({}), absl::OkStatus());
  EXPECT_TRUE((*kept)->handed_over());

  // A tensor has its own values there, not its neighbours'.
  std::vector<float> values(expected.size());
  (*device)->passes()->stream().CopyToHost(values.data(),
                                           (*device)->replica().parameters.values[embedding].data(),
                                           values.size() * sizeof(float));
  ASSERT_EQ((*device)->passes()->Wait(), absl::OkStatus());
  EXPECT_EQ(values, expected);

  ASSERT_EQ((*device)->TakeBack(), absl::OkStatus());
  EXPECT_FALSE((*kept)->handed_over());
  const ShardState::State back = shard.state();
  EXPECT_EQ(std::vector<float>(back.weights.begin(), back.weights.end()), weights);
  EXPECT_EQ(std::vector<float>(back.optimizer_state.begin(), back.optimizer_state.end()),
            optimizer_state);
}

INSTANTIATE_TEST_SUITE_P(Heads, DeviceShardTest, ::testing::Bool());

}  // namespace
}  // namespace muster
