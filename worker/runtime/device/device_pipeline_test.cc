// Tests that the stages of a pipeline on emulated devices make the steps of the same job without
// one: to the bit, unless the head is tied to the embedding of another stage or gradients are
// clipped, by norms that are summed in another order.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/runtime/device/device_jobs_for_testing.h"

namespace muster {
namespace {

// With a tied head and biases; and with a head of its own. Both have four layers.
const char kTiedHead[] =
    "layers: 2 width: 16 heads: 4 context: 7 dropout: 0.1 vocabulary: 29 pad_vocabulary_to: 8";
const char kOwnHead[] =
    "layers: 2 width: 16 heads: 4 kv_heads: 2 context: 7 norm: RMS_NORM positions: ROTARY "
    "activation: SWIGLU feed_forward: 24 no_biases: true separate_head: true dropout: 0.1 "
    "vocabulary: 29 pad_vocabulary_to: 8";

using Order = std::pair<std::string, int>;

// Puts a pipeline over a job's mesh.
DeviceTestJob Divided(DeviceTestJob job, int stages, const std::string& schedule) {
  job.ranks *= stages;
  job.pipeline = stages;
  job.schedule = schedule;
  return job;
}

// By default orders are divided among the tests below, and each is in one at least.
void ExpectOrdersOfTwoStages(const std::vector<std::string>& schedules) {
  const DeviceTestJob alone = {.micro_batches = 4, .transformer = kOwnHead};
  for (const std::string& schedule : schedules) {
    SCOPED_TRACE(schedule);
    const Trained pipeline = Train(Divided(alone, 2, schedule));
    ExpectSameBits(pipeline, TrainOnce(alone));
    EXPECT_GT(pipeline.stage_bytes_sent, 0);
  }
}

TEST(DevicePipelineTest, EveryOrderMakesTheStepsOfOneDevice) {
  ExpectOrdersOfTwoStages({"ZERO_BUBBLE"});
  const DeviceTestJob one = {.transformer = kOwnHead};
  ExpectSameBits(Train(Divided(one, 2, "LAYER_WISE")), Train(one));
}

TEST(DevicePipelineTest, PackedDocumentsAreThoseOfOneDevice) {
  const DeviceTestJob alone = {.micro_batches = 4, .transformer = kOwnHead, .packed = true};
  ExpectSameBits(Train(Divided(alone, 2, "ONE_F_ONE_B")), TrainOnce(alone));
}

TEST(DevicePipelineTest, EveryOrderMakesTheStepsOfOneDeviceExhaustive) {
  ExpectOrdersOfTwoStages({"GPIPE", "ONE_F_ONE_B", "INTERLEAVED"});
}

void ExpectOrdersWithATiedHeadAndClipping(const std::vector<Order>& orders) {
  const DeviceTestJob alone = {.micro_batches = 4, .transformer = kTiedHead, .max_norm = 0.3};
  const Trained& joined = TrainOnce(alone);
  for (const auto& [schedule, stages] : orders) {
    SCOPED_TRACE(schedule);
    const Trained pipeline = Train(Divided(alone, stages, schedule));
    ExpectNear(pipeline, joined, 1e-5);
    for (size_t step = 0; step < kSteps; ++step) {
      EXPECT_GT(joined.norms[step], 0.3) << "clipping must matter";
      EXPECT_NEAR(pipeline.norms[step], joined.norms[step], 1e-5 * joined.norms[step]);
    }
  }
}

TEST(DevicePipelineTest, EveryOrderMakesTheStepsOfOneDeviceWithATiedHeadAndClipping) {
  ExpectOrdersWithATiedHeadAndClipping({{"GPIPE", 3}, {"ONE_F_ONE_B", 4}});
}

TEST(DevicePipelineTest, EveryOrderMakesTheStepsOfOneDeviceWithATiedHeadAndClippingExhaustive) {
  ExpectOrdersWithATiedHeadAndClipping({{"INTERLEAVED", 2}, {"ZERO_BUBBLE", 3}});
}

// Compares a mesh of two data ranks, divided into two stages, with the same mesh.
void ExpectStagesOfDataRanks(const char* transformer, uint32_t zero, const std::string& schedule) {
  SCOPED_TRACE(absl::StrCat(transformer, ", stage ", zero, ", ", schedule));
  const DeviceTestJob mesh = {
      .stage = zero, .ranks = 2, .micro_batches = 2, .transformer = transformer};
  const Trained pipeline = Train(Divided(mesh, 2, schedule));
  if (transformer == kOwnHead) {
    ExpectSameBits(pipeline, TrainOnce(mesh));
  } else {
    ExpectNear(pipeline, TrainOnce(mesh), 1e-5);
  }
}

TEST(DevicePipelineTest, StagesOfDataRanksMakeTheStepsOfTheirMeshUnderZero) {
  ExpectStagesOfDataRanks(kOwnHead, 1, "INTERLEAVED");
  ExpectStagesOfDataRanks(kTiedHead, 2, "ONE_F_ONE_B");
  ExpectStagesOfDataRanks(kOwnHead, 3, "ONE_F_ONE_B");
}

TEST(DevicePipelineTest, StagesOfDataRanksMakeTheStepsOfTheirMeshUnderZeroExhaustive) {
  for (const char* const transformer : {kOwnHead, kTiedHead}) {
    ExpectStagesOfDataRanks(transformer, 0, "INTERLEAVED");
    ExpectStagesOfDataRanks(transformer, 1, "ZERO_BUBBLE");
  }
  ExpectStagesOfDataRanks(kTiedHead, 1, "INTERLEAVED");
  ExpectStagesOfDataRanks(kOwnHead, 2, "ONE_F_ONE_B");
  ExpectStagesOfDataRanks(kTiedHead, 3, "GPIPE");
}

// Compares stages of two tensor ranks, and under INTERLEAVED of two data ranks with ZeRO stage 1 as
// well, with one device.
void ExpectStagesOfTensorRanks(const char* transformer, const std::string& schedule) {
  SCOPED_TRACE(absl::StrCat(transformer, ", ", schedule));
  const DeviceTestJob alone = {.micro_batches = 2, .transformer = transformer, .max_norm = 0.3};
  DeviceTestJob mesh = alone;
  mesh.tensor = 2;
  mesh.stage = schedule == "INTERLEAVED" ? 1 : 0;
  mesh.ranks = mesh.stage == 0 ? 2 : 4;
  mesh.sequence = schedule != "ONE_F_ONE_B";
  ExpectNear(Train(Divided(mesh, 2, schedule)), TrainOnce(alone), 1e-5);
}

TEST(DevicePipelineTest, TensorRanksOfStagesMakeTheStepsOfOneDevice) {
  ExpectStagesOfTensorRanks(kTiedHead, "ONE_F_ONE_B");
  ExpectStagesOfTensorRanks(kOwnHead, "ZERO_BUBBLE");
}

TEST(DevicePipelineTest, TensorRanksOfStagesMakeTheStepsOfOneDeviceExhaustive) {
  for (const std::string schedule : {"INTERLEAVED", "ZERO_BUBBLE"}) {
    ExpectStagesOfTensorRanks(kTiedHead, schedule);
  }
  for (const std::string schedule : {"ONE_F_ONE_B", "INTERLEAVED"}) {
    ExpectStagesOfTensorRanks(kOwnHead, schedule);
  }
}

TEST(DevicePipelineTest, ReplicasOfShardsAddTheirSums) {
  const DeviceTestJob alone = {.micro_batches = 3, .transformer = kTiedHead};
  DeviceTestJob mesh = alone;
  mesh.ranks = 4;
  mesh.shard = 2;
  mesh.stage = 2;
  mesh.micro_batches = 1;
  ExpectNear(Train(Divided(mesh, 2, "GPIPE")), Train(alone), 1e-5);
}

// Stages round what they send, wherever layers are divided.
void ExpectSixteenBitStages(const std::string& type) {
  DeviceTestJob alone = {.micro_batches = 2, .type = type, .transformer = kTiedHead};
  alone.compute = "recompute: FULL";
  const Trained pipeline = Train(Divided(alone, 2, "ONE_F_ONE_B"));
  ExpectNear(pipeline, Train(alone), 1e-2);
  ExpectSameBits(Train(Divided(alone, 2, "ZERO_BUBBLE")), pipeline);
}

TEST(DevicePipelineTest, SixteenBitTypesAreNearAndOrdersHaveTheSameBits) {
  ExpectSixteenBitStages("BF16");
}

TEST(DevicePipelineTest, SixteenBitTypesAreNearAndOrdersHaveTheSameBitsExhaustive) {
  ExpectSixteenBitStages("F16");
}

void ExpectOverflowsAreLeftOutByStages(uint32_t zero) {
  const DeviceTestJob mesh = {.stage = zero,
                              .ranks = 2,
                              .micro_batches = 2,
                              .type = "F16",
                              .transformer = kTiedHead,
                              .compute = "loss_scale_window: 1"};
  Checkpoints checkpoints;
  const Trained trained = Train(Divided(mesh, 2, "ONE_F_ONE_B"), checkpoints, /*steps=*/6);
  const auto left_out = std::count(trained.norms.begin(), trained.norms.end(), -1);
  EXPECT_GT(left_out, 0) << zero;
  EXPECT_LT(left_out, 6) << zero;
}

TEST(DevicePipelineTest, AStepThatOverflowsAnywhereIsLeftOutEverywhere) {
  ExpectOverflowsAreLeftOutByStages(2);
}

TEST(DevicePipelineTest, AStepThatOverflowsAnywhereIsLeftOutEverywhereExhaustive) {
  ExpectOverflowsAreLeftOutByStages(0);
}

// Expects that these go on from the files of a pipeline of data ranks.
void ExpectOthersGoOnFromStages(const std::vector<DeviceTestJob>& others) {
  const DeviceTestJob mesh = {.stage = 1, .ranks = 2, .micro_batches = 2, .transformer = kTiedHead};
  Checkpoints checkpoints;
  const Trained cut = Train(Divided(mesh, 2, "ONE_F_ONE_B"), checkpoints, 2);
  const std::string uri = checkpoints.restore_uri;
  for (const DeviceTestJob& other : others) {
    checkpoints.restore_uri = uri;
    const Trained there = Train(other, checkpoints, 0);
    EXPECT_EQ(there.weights, cut.weights) << other.ranks;
    EXPECT_EQ(there.optimizer_state, cut.optimizer_state) << other.ranks;
    EXPECT_EQ(there.steps, cut.steps);
  }
}

TEST(DevicePipelineTest, OtherMeshesGoOnFromStagesFiles) {
  const DeviceTestJob alone = {.micro_batches = 2, .transformer = kTiedHead};
  DeviceTestJob tensor = alone;
  tensor.ranks = tensor.tensor = 2;
  ExpectOthersGoOnFromStages({alone, Divided(tensor, 2, "INTERLEAVED")});
}

TEST(DevicePipelineTest, OtherMeshesGoOnFromStagesFilesExhaustive) {
  const DeviceTestJob alone = {.micro_batches = 2, .transformer = kTiedHead};
  ExpectOthersGoOnFromStages(
      {{.stage = 1, .ranks = 2, .micro_batches = 2, .transformer = kTiedHead},
       Divided(alone, 3, "GPIPE")});
}

}  // namespace
}  // namespace muster
