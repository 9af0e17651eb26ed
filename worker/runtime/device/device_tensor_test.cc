// Tests that tensor ranks on emulated devices make the steps of one rank on the joined batch, under
// all ZeRO stages.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
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

  // Compares these stages with one process on the joined batch, and with each other.
  void Compare(const char* transformer, const std::vector<uint32_t>& stages) const {
    const DeviceTestJob alone = {.micro_batches = 2, .transformer = transformer, .max_norm = 0.3};
    const Trained& joined = TrainOnce(alone);
    std::map<uint32_t, Trained> trained;
    for (const uint32_t stage : stages) {
      SCOPED_TRACE(absl::StrCat(transformer, ", stage ", stage));
      DeviceTestJob job = JobOf(alone);
      job.stage = stage;
      const Trained& of_stage = trained[stage] = Train(job);
      ExpectNear(of_stage, joined, 1e-5);
      for (size_t step = 0; step < kSteps; ++step) {
        EXPECT_GT(joined.norms[step], 0.3) << "clipping must matter";
        EXPECT_NEAR(of_stage.norms[step], joined.norms[step], 1e-5 * joined.norms[step]);
      }
      EXPECT_GT(of_stage.tensor_bytes_sent, 0);
      // The least stage of the two kinds that was trained.
      const auto first_alike = trained.lower_bound(stage < 2 ? 0 : 2);
      EXPECT_EQ(of_stage.tensor_bytes_sent, first_alike->second.tensor_bytes_sent);
    }
    if (trained.contains(2) && trained.contains(3)) ExpectSameBits(trained[3], trained[2]);
  }
};

// Each stage comes with each transformer or a near one, with tokens divided and whole; each mesh
// with two stages or more.
TEST_P(DeviceTensorTest, EveryStageIsOneProcessOnTheJoinedBatch) {
  const std::map<MeshParameters, std::pair<const char*, std::vector<uint32_t>>> chosen = {
      {{1, 2, true}, {kTiedByTensor, {2, 3}}},
      {{2, 2, true}, {kSeparateByTensor, {0, 1, 2, 3}}},
      {{1, 4, true}, {kSeparateByTensor, {1, 3}}},
      {{2, 2, false}, {kTiedByTensor, {0, 3}}},
      {{2, 4, false}, {kTiedByTensor, {1, 2}}}};
  const auto& [transformer, stages] = chosen.at(GetParam());
  Compare(transformer, stages);
}

TEST_P(DeviceTensorTest, EveryStageIsOneProcessOnTheJoinedBatchExhaustive) {
  for (const char* const transformer : {kTiedByTensor, kSeparateByTensor}) {
    Compare(transformer, {0, 1, 2, 3});
  }
}

std::string NameOfMesh(const ::testing::TestParamInfo<MeshParameters>& info) {
  return absl::StrCat(std::get<0>(info.param), "By", std::get<1>(info.param),
                      std::get<2>(info.param) ? "Sequence" : "");
}

INSTANTIATE_TEST_SUITE_P(Meshes, DeviceTensorTest,
                         ::testing::Values(MeshParameters{2, 2, true}, MeshParameters{1, 4, true},
                                           MeshParameters{2, 2, false}),
                         NameOfMesh);
INSTANTIATE_TEST_SUITE_P(ExhaustiveMeshes, DeviceTensorTest,
                         ::testing::Values(MeshParameters{1, 2, true}, MeshParameters{2, 4, false}),
                         NameOfMesh);

TEST(DeviceTensorStagesTest, PackedDocumentsAreThoseOfOneProcess) {
  for (const char* const transformer : {kTiedByTensor, kSeparateByTensor}) {
    DeviceTestJob job = {.micro_batches = 2, .transformer = transformer, .packed = true};
    const Trained& joined = TrainOnce(job);
    job.ranks = job.tensor = 2;
    ExpectNear(Train(job), joined, 1e-5);
  }
  DeviceTestJob alone = {.micro_batches = 2, .transformer = kTiedByTensor, .packed = true};
  const Trained& apart = TrainOnce(alone);
  alone.packed = false;
  EXPECT_NE(TrainOnce(alone).weights, apart.weights);
}

// What is rounded to 16 bits is rounded once more for each sum over tensor ranks.
void ExpectSixteenBitsAreNear(const std::string& type, uint32_t stage) {
  DeviceTestJob alone = {.type = type, .transformer = kTiedByTensor};
  alone.compute = "recompute: FULL";
  DeviceTestJob job = alone;
  job.stage = stage;
  job.ranks = 4;
  job.tensor = 2;
  job.sequence = stage == 0;
  ExpectNear(Train(job), TrainOnce(alone), 1e-2);
}

TEST(DeviceTensorStagesTest, SixteenBitTypesAreNear) {
  ExpectSixteenBitsAreNear("BF16", 0);
  ExpectSixteenBitsAreNear("F16", 3);
}

TEST(DeviceTensorStagesTest, SixteenBitTypesAreNearExhaustive) {
  ExpectSixteenBitsAreNear("BF16", 3);
  ExpectSixteenBitsAreNear("F16", 0);
}

// Two groups of two shards for each of two tensor ranks.
void ExpectReplicasOfShardsByTensor(uint32_t stage) {
  DeviceTestJob job = {.micro_batches = 3, .transformer = kSeparateByTensor, .max_norm = 0.3};
  const Trained& joined = TrainOnce(job);
  job.ranks = 8;
  job.tensor = 2;
  job.shard = 2;
  job.stage = stage;
  job.micro_batches = 1;
  ExpectNear(Train(job), joined, 1e-5);
}

TEST(DeviceTensorStagesTest, ReplicasOfShardsAddTheirSums) { ExpectReplicasOfShardsByTensor(3); }

TEST(DeviceTensorStagesTest, ReplicasOfShardsAddTheirSumsExhaustive) {
  ExpectReplicasOfShardsByTensor(1);
}

void ExpectOverflowsAreLeftOutByTensor(uint32_t stage) {
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

TEST(DeviceTensorStagesTest, AStepThatOverflowsAnywhereIsLeftOutEverywhere) {
  ExpectOverflowsAreLeftOutByTensor(2);
}

TEST(DeviceTensorStagesTest, AStepThatOverflowsAnywhereIsLeftOutEverywhereExhaustive) {
  ExpectOverflowsAreLeftOutByTensor(0);
}

// Expects that these go on from the files of a job of tensor ranks.
void ExpectOthersGoOn(const std::vector<DeviceTestJob>& others) {
  const DeviceTestJob job = {.stage = 1, .ranks = 4, .tensor = 2, .transformer = kSeparateByTensor};
  Checkpoints checkpoints;
  const Trained cut = Train(job, checkpoints, 2);
  const std::string uri = checkpoints.restore_uri;
  for (const DeviceTestJob& other : others) {
    checkpoints.restore_uri = uri;
    DeviceTestJob restored = other;
    restored.transformer = kSeparateByTensor;
    const Trained there = Train(restored, checkpoints, 0);
    EXPECT_EQ(there.weights, cut.weights) << other.ranks;
    EXPECT_EQ(there.optimizer_state, cut.optimizer_state) << other.ranks;
    EXPECT_EQ(there.steps, cut.steps);
  }
}

TEST(DeviceTensorStagesTest, OtherMeshesGoOnFromARanksFiles) {
  ExpectOthersGoOn({{.stage = 3, .ranks = 2}, {.stage = 2, .ranks = 4, .tensor = 4}});
}

TEST(DeviceTensorStagesTest, OtherMeshesGoOnFromARanksFilesExhaustive) {
  ExpectOthersGoOn(
      {{.ranks = 1}, {.stage = 2, .ranks = 8, .tensor = 4}, {.ranks = 2, .tensor = 2}});
}

}  // namespace
}  // namespace muster
