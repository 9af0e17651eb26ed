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

TEST(DevicePipelineTest, EveryOrderMakesTheStepsOfOneDevice) {
  const DeviceTestJob alone = {.micro_batches = 4, .transformer = kOwnHead};
  const Trained joined = Train(alone);
  for (const std::string schedule : {"GPIPE", "ONE_F_ONE_B", "INTERLEAVED", "ZERO_BUBBLE"}) {
    SCOPED_TRACE(schedule);
    const Trained pipeline = Train(Divided(alone, 2, schedule));
    ExpectSameBits(pipeline, joined);
    EXPECT_GT(pipeline.stage_bytes_sent, 0);
  }
  DeviceTestJob one = alone;
  one.micro_batches = 1;
  ExpectSameBits(Train(Divided(one, 2, "LAYER_WISE")), Train(one));
}

TEST(DevicePipelineTest, EveryOrderMakesTheStepsOfOneDeviceWithATiedHeadAndClipping) {
  const DeviceTestJob alone = {.micro_batches = 4, .transformer = kTiedHead, .max_norm = 0.3};
  const Trained joined = Train(alone);
  for (const auto& [schedule, stages] : {Order{"GPIPE", 3}, Order{"ONE_F_ONE_B", 4},
                                         Order{"INTERLEAVED", 2}, Order{"ZERO_BUBBLE", 3}}) {
    SCOPED_TRACE(schedule);
    const Trained pipeline = Train(Divided(alone, stages, schedule));
    ExpectNear(pipeline, joined, 1e-5);
    for (size_t step = 0; step < kSteps; ++step) {
      EXPECT_GT(joined.norms[step], 0.3) << "clipping must matter";
      EXPECT_NEAR(pipeline.norms[step], joined.norms[step], 1e-5 * joined.norms[step]);
    }
  }
}

TEST(DevicePipelineTest, StagesOfDataRanksMakeTheStepsOfTheirMeshUnderZero) {
  struct Case {
    uint32_t zero;
    std::vector<std::string> schedules;
  };
  for (const Case& of : {Case{0, {"INTERLEAVED"}}, Case{1, {"INTERLEAVED", "ZERO_BUBBLE"}},
                         Case{2, {"ONE_F_ONE_B"}}}) {
    for (const char* const transformer : {kOwnHead, kTiedHead}) {
      const DeviceTestJob mesh = {
          .stage = of.zero, .ranks = 2, .micro_batches = 2, .transformer = transformer};
      const Trained without = Train(mesh);
      for (const std::string& schedule : of.schedules) {
        SCOPED_TRACE(absl::StrCat(transformer, ", stage ", of.zero, ", ", schedule));
        const Trained pipeline = Train(Divided(mesh, 2, schedule));
        if (transformer == kOwnHead) {
          ExpectSameBits(pipeline, without);
        } else {
          ExpectNear(pipeline, without, 1e-5);
        }
      }
    }
  }
}

TEST(DevicePipelineTest, TensorRanksOfStagesMakeTheStepsOfOneDevice) {
  for (const char* const transformer : {kOwnHead, kTiedHead}) {
    const DeviceTestJob alone = {.micro_batches = 2, .transformer = transformer, .max_norm = 0.3};
    const Trained joined = Train(alone);
    for (const std::string schedule : {"ONE_F_ONE_B", "INTERLEAVED", "ZERO_BUBBLE"}) {
      SCOPED_TRACE(absl::StrCat(transformer, ", ", schedule));
      DeviceTestJob mesh = alone;
      mesh.tensor = 2;
      mesh.stage = schedule == "INTERLEAVED" ? 1 : 0;
      mesh.ranks = mesh.stage == 0 ? 2 : 4;
      mesh.sequence = schedule != "ONE_F_ONE_B";
      ExpectNear(Train(Divided(mesh, 2, schedule)), joined, 1e-5);
    }
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
TEST(DevicePipelineTest, SixteenBitTypesAreNearAndOrdersHaveTheSameBits) {
  for (const std::string type : {"BF16", "F16"}) {
    DeviceTestJob alone = {.micro_batches = 2, .type = type, .transformer = kTiedHead};
    alone.compute = "recompute: FULL";
    const Trained pipeline = Train(Divided(alone, 2, "ONE_F_ONE_B"));
    ExpectNear(pipeline, Train(alone), 1e-2);
    ExpectSameBits(Train(Divided(alone, 2, "ZERO_BUBBLE")), pipeline);
  }
}

TEST(DevicePipelineTest, AStepThatOverflowsAnywhereIsLeftOutEverywhere) {
  for (const uint32_t zero : {0, 2}) {
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
}

TEST(DevicePipelineTest, OtherMeshesGoOnFromStagesFiles) {
  const DeviceTestJob mesh = {.stage = 1, .ranks = 2, .micro_batches = 2, .transformer = kTiedHead};
  Checkpoints checkpoints;
  const Trained cut = Train(Divided(mesh, 2, "ONE_F_ONE_B"), checkpoints, 2);
  const std::string uri = checkpoints.restore_uri;
  const DeviceTestJob alone = {.micro_batches = 2, .transformer = kTiedHead};
  DeviceTestJob tensor = alone;
  tensor.ranks = tensor.tensor = 2;
  for (const DeviceTestJob& other :
       {alone, mesh, Divided(alone, 3, "GPIPE"), Divided(tensor, 2, "INTERLEAVED")}) {
    checkpoints.restore_uri = uri;
    const Trained there = Train(other, checkpoints, 0);
    EXPECT_EQ(there.weights, cut.weights) << other.ranks;
    EXPECT_EQ(there.optimizer_state, cut.optimizer_state) << other.ranks;
    EXPECT_EQ(there.steps, cut.steps);
  }
}

}  // namespace
}  // namespace muster
