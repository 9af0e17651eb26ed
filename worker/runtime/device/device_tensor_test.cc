// Tests that tensor ranks on emulated devices make the steps of one rank on the joined batch, under
// all ZeRO stages.
#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/runtime/device/device_jobs_for_testing.h"

namespace muster {
namespace {

// With a tied head and biases; and with a head of its own, and key-value heads that four ranks have
// in common by twos.
const char kTiedByTensor[] =
    "layers: 2 width: 16 heads: 4 context: 7 dropout: 0.1 attention_dropout: 0.1 "
    "vocabulary: 29 pad_vocabulary_to: 8";
const char kSeparateByTensor[] =
    "layers: 2 width: 16 heads: 4 kv_heads: 2 context: 7 norm: RMS_NORM positions: ROTARY "
    "activation: SWIGLU feed_forward: 24 no_biases: true separate_head: true vocabulary: 29 "
    "pad_vocabulary_to: 8";

// A mesh of data and tensor ranks, and whether these divide tokens.
using MeshParameters = std::tuple<int, int, bool>;

class DeviceTensorTest : public ::testing::TestWithParam<MeshParameters> {
 protected:
  DeviceTestJob JobOf(const DeviceTestJob& alone) const {
    const auto& [data, tensor, sequence] = GetParam();
    DeviceTestJob job = alone;
    job.ranks = data * tensor;
    job.tensor = tensor;
    job.sequence = sequence;
    return job;
  }
};

TEST_P(DeviceTensorTest, EveryStageIsOneProcessOnTheJoinedBatch) {
  for (const char* const transformer : {kTiedByTensor, kSeparateByTensor}) {
    const DeviceTestJob alone = {.micro_batches = 2, .transformer = transformer, .max_norm = 0.3};
    const Trained joined = Train(alone);
    std::vector<Trained> stages;
    for (const uint32_t stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(transformer, ", stage ", stage));
      DeviceTestJob job = JobOf(alone);
      job.stage = stage;
      stages.push_back(Train(job));
      ExpectNear(stages[stage], joined, 1e-5);
      for (size_t step = 0; step < kSteps; ++step) {
        EXPECT_GT(joined.norms[step], 0.3) << "clipping must matter";
        EXPECT_NEAR(stages[stage].norms[step], joined.norms[step], 1e-5 * joined.norms[step]);
      }
      EXPECT_GT(stages[stage].tensor_bytes_sent, 0);
      EXPECT_EQ(stages[stage].tensor_bytes_sent, stages[stage < 2 ? 0 : 2].tensor_bytes_sent);
    }
    ExpectSameBits(stages[3], stages[2]);
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, DeviceTensorTest,
                         ::testing::Values(MeshParameters{1, 2, true}, MeshParameters{2, 2, true},
                                           MeshParameters{1, 4, true}, MeshParameters{2, 2, false},
                                           MeshParameters{2, 4, false}),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "By",
                                               std::get<1>(info.param),
                                               std::get<2>(info.param) ? "Sequence" : "");
                         });

// What is rounded to 16 bits is rounded once more for each sum over tensor ranks.
TEST(DeviceTensorStagesTest, SixteenBitTypesAreNear) {
  for (const std::string type : {"BF16", "F16"}) {
    DeviceTestJob alone = {.type = type, .transformer = kTiedByTensor};
    alone.compute = "recompute: FULL";
    const Trained joined = Train(alone);
    for (const uint32_t stage : {0, 3}) {
      DeviceTestJob job = alone;
      job.stage = stage;
      job.ranks = 4;
      job.tensor = 2;
      job.sequence = stage == 0;
      ExpectNear(Train(job), joined, 1e-2);
    }
  }
}

// Two groups of two shards for each of two tensor ranks.
TEST(DeviceTensorStagesTest, ReplicasOfShardsAddTheirSums) {
  DeviceTestJob job = {.micro_batches = 3, .transformer = kSeparateByTensor, .max_norm = 0.3};
  const Trained joined = Train(job);
  job.ranks = 8;
  job.tensor = 2;
  job.shard = 2;
  for (const uint32_t stage : {1, 3}) {
    job.stage = stage;
    job.micro_batches = 1;
    ExpectNear(Train(job), joined, 1e-5);
  }
}

TEST(DeviceTensorStagesTest, AStepThatOverflowsAnywhereIsLeftOutEverywhere) {
  for (const uint32_t stage : {0, 2}) {
    const DeviceTestJob job = {.stage = stage,
                               .ranks = 4,
                               .tensor = 2,
                               .type = "F16",
                               .transformer = kTiedByTensor,
                               .compute = "loss_scale_window: 1"};
    Checkpoints checkpoints;
    const Trained trained = Train(job, checkpoints, /*steps=*/6);
    const auto left_out = std::count(trained.norms.begin(), trained.norms.end(), -1);
    EXPECT_GT(left_out, 0) << stage;
    EXPECT_LT(left_out, 6) << stage;
  }
}

TEST(DeviceTensorStagesTest, OtherMeshesGoOnFromARanksFiles) {
  const DeviceTestJob job = {.stage = 1, .ranks = 4, .tensor = 2, .transformer = kSeparateByTensor};
  Checkpoints checkpoints;
  const Trained cut = Train(job, checkpoints, 2);
  const std::string uri = checkpoints.restore_uri;
  for (const DeviceTestJob& other :
       {DeviceTestJob{.ranks = 1}, DeviceTestJob{.stage = 3, .ranks = 2},
        DeviceTestJob{.stage = 2, .ranks = 8, .tensor = 4},
        DeviceTestJob{.ranks = 2, .tensor = 2}}) {
    checkpoints.restore_uri = uri;
    DeviceTestJob restored = other;
    restored.transformer = kSeparateByTensor;
    const Trained there = Train(restored, checkpoints, 0);
    EXPECT_EQ(there.weights, cut.weights) << other.ranks;
    EXPECT_EQ(there.optimizer_state, cut.optimizer_state) << other.ranks;
    EXPECT_EQ(there.steps, cut.steps);
  }
}

}  // namespace
}  // namespace muster
