// Traffic of ranks that compute the model together: tensor ranks, and the stages of a pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/partition/schema.h"
#include "common/plan/calls/step_traffic.h"
#include "common/plan/calls/traffic_schema_for_testing.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Rows of a matrix that ranks divide, a gain that all have, and a bias of the first rank alone.
v1::TablesSchema DividedSchema() {
  std::vector<TensorSpec> tensors(3);
  tensors[0].name = "w";
  tensors[0].shape = {8, 4};
  tensors[0].placement = {Placement::Kind::kShard, 0, {{8, 8}}};
  tensors[1].name = "gain";
  tensors[1].shape = {4};
  tensors[2].name = "bias";
  tensors[2].shape = {4};
  tensors[2].placement.kind = Placement::Kind::kFirst;
  v1::TablesSchema schema = Schema();
  SetTables(tensors, {}, schema);
  return schema;
}

// A block of width 4 on sequences of 8 tokens, on 2 data ranks of 2 tensor ranks.
v1::JobSpec TensorJob(uint32_t batch_size) {
  v1::JobSpec spec;
  spec.set_workers(4);
  spec.set_batch_size(batch_size);
  spec.mutable_parallelism()->set_tensor(2);
  v1::TransformerSpec& transformer = *spec.mutable_model()->mutable_transformer();
  transformer.set_layers(1);
  transformer.set_width(4);
  transformer.set_heads(2);
  transformer.set_context(8);
  return spec;
}

std::vector<double> TensorSent(const v1::JobSpec& spec,
                               const v1::TablesSchema& schema = DividedSchema()) {
  const auto traffic = PredictAllReduceTraffic(schema, spec, kShared);
  EXPECT_TRUE(traffic.ok()) << traffic.status();
  if (!traffic.ok()) return {};
  const auto mean = PredictMeanTraffic(schema, spec, CallRoad::kAllReduce, kShared);
  EXPECT_DOUBLE_EQ(mean->front().tensor.sent, MeanOf(traffic->tensor).sent);
  EXPECT_DOUBLE_EQ(mean->front().data.sent + mean->front().tensor.sent,
                   MeanOf(traffic->workers).sent);
  EXPECT_DOUBLE_EQ(mean->front().tensor.received, MeanOf(traffic->tensor).received);
  std::vector<double> sent;
  for (const WorkerTraffic& worker : traffic->tensor) sent.push_back(worker.sent);
  return sent;
}

TEST(TensorTrafficTest, RanksGatherAndScatterTheirTokens) {
  // 16 tokens a data rank: rows of 8 are 128 bytes. A block has 10 calls, embedding and head have 2
  // each; 4 floats a token are told, and the gain's gradient.
  constexpr double kLoss = 16 * 16, kGain = 16;
  const v1::JobSpec spec = TensorJob(4);
  EXPECT_THAT(TensorSent(spec), ElementsAre(2064, 2064, 2064, 2064));
  EXPECT_EQ(2064, 14 * 128 + kLoss + kGain);
  // Along data each tensor rank sums its own tensors, and the first has the bias, too.
  const auto all = PredictAllReduceTraffic(DividedSchema(), spec, kShared);
  EXPECT_THAT(all->workers, ElementsAre(WorkerTraffic{2160, 2160}, WorkerTraffic{2144, 2144},
                                        WorkerTraffic{2160, 2160}, WorkerTraffic{2144, 2144}));
  v1::JobSpec full = spec;
  full.mutable_compute()->set_recompute(v1::ComputeSpec::FULL);
  EXPECT_THAT(TensorSent(full), Each(17 * 128 + kLoss + kGain));
  v1::JobSpec half = spec;
  half.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  EXPECT_THAT(TensorSent(half), Each(12 * 64 + 2 * 128 + kLoss + kGain));
}

TEST(TensorTrafficTest, WithWholeTokensRanksSum) {
  v1::JobSpec spec = TensorJob(4);
  spec.mutable_parallelism()->set_sequence(false);
  EXPECT_THAT(TensorSent(spec), Each(6 * 256 + 16 * 16));
  spec.mutable_compute()->set_recompute(v1::ComputeSpec::FULL);
  EXPECT_THAT(TensorSent(spec), Each(7 * 256 + 16 * 16));
}

TEST(TensorTrafficTest, EveryMicroBatchMakesItsCalls) {
  // A data rank has a micro-batch of 16 tokens and one of 8.
  v1::JobSpec spec = TensorJob(6);
  spec.set_micro_batches(2);
  EXPECT_THAT(TensorSent(spec), Each(14 * (128 + 64) + 24 * 16 + 16));
  // Gradients in flight are summed each time.
  spec.mutable_parallelism()->mutable_zero()->set_stage(2);
  EXPECT_THAT(TensorSent(spec), Each(14 * (128 + 64) + 24 * 16 + 2 * 16));
}

TEST(TensorTrafficTest, DataRanksWithMoreExamplesSendMore) {
  EXPECT_THAT(TensorSent(TensorJob(3)), ElementsAre(1040, 1040, 2064, 2064));
}

// The rows of docs/parallelism/context.md.
TEST(ContextTrafficTest, RanksSendWhatTheirExchangeSays) {
  v1::JobSpec spec = TensorJob(2);
  spec.set_workers(2);
  spec.mutable_parallelism()->clear_tensor();
  spec.mutable_parallelism()->set_context(2);
  // (c - 1) / c of B T tokens, E columns of keys and values, A of queries; and the loss.
  constexpr double kTokens = 16 / 2, kE = 8, kA = 4, kLoss = 24;
  const auto expect_sent = [&](v1::ParallelismSpec::ContextExchange exchange, double forward,
                               double backward, double selective) {
    spec.mutable_parallelism()->set_context_exchange(exchange);
    v1::JobSpec job = spec;
    EXPECT_THAT(TensorSent(job), Each(kTokens * (forward + backward) + kLoss));
    job.mutable_compute()->set_recompute(v1::ComputeSpec::SELECTIVE);
    EXPECT_THAT(TensorSent(job), Each(kTokens * (forward + selective + backward) + kLoss));
    job.mutable_compute()->set_recompute(v1::ComputeSpec::FULL);
    EXPECT_THAT(TensorSent(job), Each(kTokens * (2 * forward + backward) + kLoss));
  };
  expect_sent(v1::ParallelismSpec::RING, kE * 4, kE * 8, kE * 4);
  expect_sent(v1::ParallelismSpec::GATHER, kE * 4, kE * 8, kE * 4);
  // Half of the tokens are of one rank.
  const double heads = (kE + 2 * kA) * 4 / 2;
  expect_sent(v1::ParallelismSpec::HEADS, heads, heads, kA * 4 / 2);
  // Each of two ranks has the one key-value head.
  spec.mutable_model()->mutable_transformer()->set_kv_heads(1);
  expect_sent(v1::ParallelismSpec::RING, kE / 2 * 4, kE / 2 * 8, kE / 2 * 4);
  expect_sent(v1::ParallelismSpec::HEADS, heads, heads, kA * 4 / 2);
}

TEST(TensorTrafficTest, NeighboursSumTheHeadsThatTheyShare) {
  std::vector<TensorSpec> tensors(1);
  tensors[0].name = "qkv";
  tensors[0].shape = {8, 4};
  tensors[0].placement = {Placement::Kind::kShard, 0, {{4, 4}, {2, 2}, {2, 2}}};
  v1::TablesSchema schema = Schema();
  SetTables(tensors, {}, schema);
  v1::JobSpec spec = TensorJob(2);
  spec.mutable_parallelism()->set_tensor(4);
  // Each rank has 4 of 16 rows, which are 64 bytes, and sends them three times; a row of
  // keys and one of values go to the neighbour.
  EXPECT_THAT(TensorSent(spec, schema), Each(14 * 3 * 64 + 3 * 16 * 16 + 32));
}

TEST(TensorTrafficTest, PerceptronsSumOnceForEachPairOfLayers) {
  std::vector<TensorSpec> tensors(3);
  const int64_t shapes[][2] = {{8, 5}, {6, 8}, {4, 6}};
  for (uint32_t unit = 0; unit < 3; ++unit) {
    tensors[unit].name = std::string(1, static_cast<char>('a' + unit));
    tensors[unit].shape = {shapes[unit][0], shapes[unit][1]};
    tensors[unit].unit = unit;
    const int64_t divided = shapes[unit][unit % 2];
    tensors[unit].placement = {
        Placement::Kind::kShard, static_cast<int>(unit % 2), {{divided, divided}}};
  }
  v1::TablesSchema schema = Schema();
  SetTables(tensors, {}, schema);
  v1::JobSpec spec = TensorJob(4);
  spec.mutable_model()->mutable_mlp();
  // 2 examples: 6 outputs of the second layer, and the gradients of the third one's 6 inputs.
  EXPECT_THAT(TensorSent(spec, schema), Each(2 * (6 + 6) * 4));
}

// Four layers of 8, 8, 8 and 4 outputs, a unit each, on two stages.
v1::TablesSchema PipelineSchema(const std::vector<int>& groups) {
  std::vector<TensorSpec> tensors(4);
  for (uint32_t unit = 0; unit < 4; ++unit) {
    tensors[unit].name = std::string(1, static_cast<char>('a' + unit));
    tensors[unit].shape = {unit == 3 ? 4 : 8, 8};
    tensors[unit].unit = unit;
  }
  v1::TablesSchema schema = Schema();
  SetTables(tensors, {}, schema);
  schema.set_pipeline(2);
  schema.mutable_pipeline_layers()->Add(groups.begin(), groups.end());
  return schema;
}

v1::JobSpec PipelineJob(uint32_t batch, uint32_t workers) {
  v1::JobSpec spec;
  spec.set_workers(workers);
  spec.set_batch_size(batch);
  spec.set_micro_batches(4);
  spec.mutable_model()->mutable_mlp();
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_parallelism()->set_pipeline(2);
  return spec;
}

void ExpectMeans(const PredictedTraffic& all, const std::vector<AxisTraffic>& means) {
  const size_t workers = all.workers.size() / means.size();
  for (size_t stage = 0; stage < means.size(); ++stage) {
    const auto mean = [&](const std::vector<WorkerTraffic>& of_all) {
      return MeanOf(absl::MakeConstSpan(of_all).subspan(stage * workers, workers));
    };
    EXPECT_DOUBLE_EQ(means[stage].tensor.sent, mean(all.tensor).sent);
    EXPECT_DOUBLE_EQ(means[stage].pipeline.sent, mean(all.pipeline).sent);
    EXPECT_DOUBLE_EQ(means[stage].pipeline.received, mean(all.pipeline).received);
    EXPECT_DOUBLE_EQ(means[stage].total().sent, mean(all.workers).sent);
    EXPECT_DOUBLE_EQ(means[stage].total().received, mean(all.workers).received);
  }
}

TEST(PipelineTrafficTest, EveryExampleCrossesEachBoundaryOnceEachWay) {
  const v1::JobSpec spec = PipelineJob(10, 2);
  const auto all = PredictAllReduceTraffic(PipelineSchema({1, 3}), spec, kShared);
  ASSERT_TRUE(all.ok()) << all.status();
  // Eight floats of each of ten examples, however they are cut into micro-batches.
  EXPECT_THAT(all->workers, Each(WorkerTraffic{320, 320}));
  EXPECT_EQ(all->pipeline, all->workers);
  // The first and the last of four groups cross one boundary, the others two.
  v1::JobSpec interleaved = spec;
  interleaved.mutable_parallelism()->set_pipeline_schedule(v1::ParallelismSpec::INTERLEAVED);
  const v1::TablesSchema chunks = PipelineSchema({1, 1, 1, 1});
  EXPECT_THAT(PredictAllReduceTraffic(chunks, interleaved, kShared)->workers,
              Each(WorkerTraffic{960, 960}));
  ExpectMeans(*all,
              *PredictMeanTraffic(PipelineSchema({1, 3}), spec, CallRoad::kAllReduce, kShared));
}

TEST(PipelineTrafficTest, AStagesDataRanksSumItsOwnGradients) {
  // Four examples, and five.
  const v1::JobSpec spec = PipelineJob(9, 4);
  const v1::TablesSchema schema = PipelineSchema({1, 3});
  const auto all = PredictAllReduceTraffic(schema, spec, kShared);
  ASSERT_TRUE(all.ok()) << all.status();
  constexpr double kFirst = 64 * 4, kRest = (64 + 64 + 32) * 4;
  EXPECT_THAT(all->workers, ElementsAre(WorkerTraffic{kFirst + 128, kFirst + 128},
                                        WorkerTraffic{kFirst + 160, kFirst + 160},
                                        WorkerTraffic{kRest + 128, kRest + 128},
                                        WorkerTraffic{kRest + 160, kRest + 160}));
  ExpectMeans(*all, *PredictMeanTraffic(schema, spec, CallRoad::kAllReduce, kShared));
}

TEST(PipelineTrafficTest, StagesSumTheGradientOfATensorThatBothHave) {
  v1::TablesSchema schema = PipelineSchema({1, 3});
  std::vector<TensorSpec> tensors = TablesFromSchema(schema).tensors;
  tensors[3].shape = {8, 8};
  tensors[3].tied_to = tensors[0].name;
  SetTables(tensors, {}, schema);
  v1::JobSpec spec = PipelineJob(8, 4);
  // 64 elements, beside 32 bytes of each of four examples.
  EXPECT_THAT(PredictAllReduceTraffic(schema, spec, kShared)->pipeline,
              Each(WorkerTraffic{128 + 256, 128 + 256}));
  v1::JobSpec on_servers = spec;
  on_servers.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_THAT(PredictServerTraffic(schema, {}, on_servers, kShared)->pipeline,
              ElementsAre(WorkerTraffic{128, 128 + 256}, WorkerTraffic{128, 128 + 256},
                          WorkerTraffic{128 + 256, 128}, WorkerTraffic{128 + 256, 128}));
  spec.mutable_parallelism()->mutable_zero()->set_stage(1);
  const auto sharded = PredictAllReduceTraffic(schema, spec, kShared);
  EXPECT_THAT(sharded->pipeline, Each(WorkerTraffic{128 + 128, 128 + 128}));
  ExpectMeans(*sharded, *PredictMeanTraffic(schema, spec, CallRoad::kAllReduce, kShared));
}

TEST(PipelineTrafficTest, TensorRanksOfAStageHandOnTheirOwnTokens) {
  std::vector<TensorSpec> tensors(3);
  for (uint32_t unit = 0; unit < 3; ++unit) {
    tensors[unit].name = std::string(1, static_cast<char>('a' + unit));
    tensors[unit].shape = {4, 4};
    tensors[unit].unit = unit;
    tensors[unit].placement = {Placement::Kind::kShard, 0, {{4, 4}}};
  }
  v1::TablesSchema schema = Schema();
  SetTables(tensors, {}, schema);
  schema.set_pipeline(2);
  for (const uint32_t units : {1, 2}) schema.add_pipeline_layers(units);
  v1::JobSpec spec = TensorJob(2);
  spec.mutable_parallelism()->set_pipeline(2);
  spec.mutable_parallelism()->set_tensor(2);
  const auto all = PredictAllReduceTraffic(schema, spec, kShared);
  ASSERT_TRUE(all.ok()) << all.status();
  // 16 tokens of four floats, which two ranks share out.
  EXPECT_THAT(all->pipeline, Each(WorkerTraffic{128, 128}));
  // The first stage has the embedding's two calls of 128 bytes; the other the block's ten and the
  // head's two, and the loss.
  constexpr double kLast = 12 * 128 + 16 * 16;
  EXPECT_THAT(all->tensor, ElementsAre(WorkerTraffic{256, 256}, WorkerTraffic{256, 256},
                                       WorkerTraffic{kLast, kLast}, WorkerTraffic{kLast, kLast}));
  // Backward of weights gathers what it multiplies once more.
  spec.mutable_parallelism()->set_pipeline_schedule(v1::ParallelismSpec::ZERO_BUBBLE);
  EXPECT_EQ(PredictAllReduceTraffic(schema, spec, kShared)->tensor[2].sent, kLast + 2 * 128);
}

TEST(TensorTrafficTest, OnServersARankPushesWhatItOwnsAndPullsWhatItHas) {
  v1::JobSpec spec = TensorJob(4);
  const v1::TablesSchema schema = DividedSchema();
  const auto on_servers = PredictServerTraffic(schema, {}, spec, kShared);
  ASSERT_TRUE(on_servers.ok()) << on_servers.status();
  EXPECT_EQ(on_servers->tensor, PredictAllReduceTraffic(schema, spec, kShared)->tensor);
  const auto with_servers = [&](size_t slot) {
    return WorkerTraffic{on_servers->workers[slot].sent - on_servers->tensor[slot].sent,
                         on_servers->workers[slot].received - on_servers->tensor[slot].received};
  };
  // Half of the matrix each; the first rank pushes the gain, and has the bias.
  v1::JobSpec alone;
  alone.set_workers(1);
  const double whole = PredictServerTraffic(schema, {}, alone, kShared)->workers[0].sent;
  EXPECT_EQ(with_servers(0).sent + with_servers(1).sent, whole);
  EXPECT_EQ(with_servers(0).received, with_servers(0).sent);
  EXPECT_EQ(with_servers(1).received, with_servers(1).sent + 16);
  EXPECT_EQ(with_servers(2), with_servers(0));
  const auto means = PredictMeanTraffic(schema, spec, CallRoad::kServers, kShared);
  ASSERT_TRUE(means.ok()) << means.status();
  EXPECT_DOUBLE_EQ(means->front().total().sent, MeanOf(on_servers->workers).sent);
  // Under stage 3 every micro-batch pushes, and sums what ranks share before.
  spec.set_micro_batches(2);
  const double once = PredictServerTraffic(schema, {}, spec, kShared)->tensor[0].sent;
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_parallelism()->mutable_zero()->set_stage(3);
  EXPECT_EQ(PredictServerTraffic(schema, {}, spec, kShared)->tensor[0].sent, once + 16);
}

}  // namespace
}  // namespace muster
