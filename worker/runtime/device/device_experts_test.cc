// Tests that jobs with experts make on emulated devices the steps of one rank.
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "worker/runtime/device/cpu_reference_for_testing.h"
#include "worker/runtime/device/device_jobs_for_testing.h"
#include "worker/runtime/device/device_rank_for_testing.h"

namespace muster {
namespace {

// A dense block, and one of experts with all that there may be on devices.
const char kWithExperts[] =
    "layers: 2 width: 16 heads: 2 context: 12 norm: RMS_NORM positions: ROTARY activation: SWIGLU "
    "feed_forward: 24 no_biases: true separate_head: true vocabulary: 29 pad_vocabulary_to: 8 moe "
    "{ "
    "experts: 4 top_k: 2 expert_width: 12 shared_width: 8 shared_gate: true dense_layers: 0 "
    "normalize: true auxiliary_loss: 0.1 z_loss: 0.01 }";

DeviceTestJob JobWithExperts(int micro_batches) {
  return {
      .micro_batches = micro_batches, .transformer = kWithExperts, .max_norm = 0.3, .length = 12};
}

// The same with a limit for each expert, which some choices exceed.
const std::string& WithLimits() {
  static const std::string* const with_limits = new std::string(
      absl::StrReplaceAll(kWithExperts, {{"z_loss: 0.01", "z_loss: 0.01 capacity_factor: 0.75"}}));
  return *with_limits;
}

void ExpectNearRouters(const RouterSums& actual, const RouterSums& expected) {
  EXPECT_GT(expected.tokens, 0);
  EXPECT_EQ(actual.tokens, expected.tokens);
  EXPECT_NEAR(actual.auxiliary, expected.auxiliary, 1e-4 * expected.auxiliary);
  EXPECT_NEAR(actual.z, expected.z, 1e-4 * expected.z);
  EXPECT_NEAR(actual.entropy, expected.entropy, 1e-4 * expected.entropy);
}

void ExpectStepsOfOneProcess(const DeviceTestJob& job) {
  SCOPED_TRACE(SpecOf(job).ShortDebugString());
  DeviceTestJob one = JobWithExperts(1);
  one.transformer = job.transformer;
  one.one_token = job.one_token;
  const Trained& alone = TrainOnce(one);
  const Trained trained = Train(job);
  ExpectNear(trained, alone, 1e-5);
  for (size_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(trained.norms[step], alone.norms[step], 1e-5 * alone.norms[step]) << step;
  }
  EXPECT_EQ(trained.expert_loads, alone.expert_loads);
  ExpectNearRouters(trained.router_sums, alone.router_sums);
}

// Loads are those of one step, whatever the device computed before, and so with what warms it up.
TEST(DeviceExpertsTest, EachStepsLoadsAreTheCpus) {
  const DeviceTestJob job = JobWithExperts(2);
  CpuReference reference(kWithExperts, kVocabulary, "");
  reference.SetWeights(3);
  const auto rank = DeviceRank::Create(SpecOf(job), kVocabulary);
  ASSERT_TRUE(rank.ok()) << rank.status();
  for (uint64_t step = 0; step < 2; ++step) {
    ASSERT_EQ((*rank)->SetWeights(reference.weights()), absl::OkStatus());
    const std::vector<PlacedBatch> micro_batches = {
        {RandomSequences(2, 12, kVocabulary, 5 + step), 0},
        {RandomSequences(2, 12, kVocabulary, 7 + step), 2}};
    reference.BeginStep(step);
    for (const PlacedBatch& each : micro_batches) {
      reference.AddMicroBatch(each.batch, each.first_example);
    }
    const auto result = (*rank)->Train(micro_batches);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->sums.expert_loads, reference.expert_loads());
    ExpectNearRouters(result->sums.router_sums, reference.router_sums());
    // The first block is dense; each token of the other goes to two experts.
    const std::vector<uint64_t>& loads = result->sums.expert_loads;
    EXPECT_EQ(std::accumulate(loads.begin(), loads.begin() + 4, uint64_t{0}), 0);
    EXPECT_EQ(std::accumulate(loads.begin() + 4, loads.end(), uint64_t{0}), 2 * 4 * 12);
  }
}

TEST(DeviceExpertsTest, RanksMakeTheStepsOfOne) {
  DeviceTestJob data = JobWithExperts(2);
  data.ranks = 2;
  data.stage = 3;
  ExpectStepsOfOneProcess(data);
  DeviceTestJob tensor = JobWithExperts(1);
  tensor.ranks = tensor.tensor = 2;
  ExpectStepsOfOneProcess(tensor);
  DeviceTestJob context = JobWithExperts(1);
  context.ranks = context.context = 2;
  ExpectStepsOfOneProcess(context);
}

DeviceTestJob JobOfExpertRanks(int ranks, int expert, int stage = 0) {
  DeviceTestJob job = JobWithExperts(1);
  job.ranks = ranks;
  job.expert = expert;
  job.stage = stage;
  return job;
}

// They are all data ranks or some, whose experts are copied, divided further, or neither.
TEST(DeviceExpertsTest, ExpertRanksMakeTheStepsOfOne) {
  ExpectStepsOfOneProcess(JobOfExpertRanks(2, 2));
  ExpectStepsOfOneProcess(JobOfExpertRanks(4, 2, 2));
}

TEST(DeviceExpertsTest, ExpertRanksComputeIn16Bits) {
  for (const char* const type : {"BF16", "F16"}) {
    DeviceTestJob one = JobWithExperts(1);
    one.type = type;
    DeviceTestJob job = JobOfExpertRanks(2, 2);
    job.type = type;
    ExpectNear(Train(job), Train(one), 1e-2);
  }
}

TEST(DeviceExpertsTest, ExpertRanksMakeTheStepsOfOneExhaustive) {
  ExpectStepsOfOneProcess(JobOfExpertRanks(4, 2));
  ExpectStepsOfOneProcess(JobOfExpertRanks(4, 4, 1));
  DeviceTestJob groups = JobOfExpertRanks(4, 4, 3);
  groups.shard = 2;
  groups.micro_batches = 3;
  ExpectStepsOfOneProcess(groups);
}

// Equal tokens go to one expert, whose rank takes them in rounds; the other has none.
TEST(DeviceExpertsTest, AllTokensToOneExpertRank) {
  DeviceTestJob one = JobWithExperts(1);
  one.transformer = absl::StrReplaceAll(kWithExperts, {{"top_k: 2", "top_k: 1"}});
  one.one_token = true;
  for (const uint64_t load : TrainOnce(one).expert_loads) EXPECT_EQ(load % (12 * kSequences), 0);
  DeviceTestJob job = one;
  job.ranks = job.expert = 2;
  job.compute = "recompute: FULL";
  ExpectStepsOfOneProcess(job);
}

TEST(DeviceExpertsTest, ExpertRanksOnOtherMeshesMakeTheStepsOfOne) {
  DeviceTestJob tensor = JobOfExpertRanks(4, 2, 1);
  tensor.tensor = 2;
  ExpectStepsOfOneProcess(tensor);
  DeviceTestJob stages = JobOfExpertRanks(4, 2);
  stages.pipeline = 2;
  stages.micro_batches = 3;
  stages.schedule = "ZERO_BUBBLE";
  ExpectStepsOfOneProcess(stages);
}

TEST(DeviceExpertsTest, ExpertRanksOnOtherMeshesMakeTheStepsOfOneExhaustive) {
  DeviceTestJob context = JobOfExpertRanks(4, 4, 3);
  context.context = 2;
  ExpectStepsOfOneProcess(context);
  DeviceTestJob stages = JobOfExpertRanks(4, 2);
  stages.pipeline = 2;
  stages.micro_batches = 3;
  ExpectStepsOfOneProcess(stages);
}

TEST(DeviceExpertsTest, ExpertRanksCountAndDropAsOne) {
  DeviceTestJob job = JobOfExpertRanks(2, 2);
  job.transformer = absl::StrReplaceAll(
      WithLimits(), {{"auxiliary_loss: 0.1", "auxiliary_loss: 1 auxiliary_scope: GLOBAL_BATCH"}});
  ExpectStepsOfOneProcess(job);
}

TEST(DeviceExpertsTest, DropsWhatTheCpuDrops) {
  DeviceTestJob job = JobWithExperts(1);
  job.transformer = WithLimits();
  CpuReference reference(job.transformer, kVocabulary, "");
  reference.SetWeights(3);
  const auto rank = DeviceRank::Create(SpecOf(job), kVocabulary);
  ASSERT_TRUE(rank.ok()) << rank.status();
  ASSERT_EQ((*rank)->SetWeights(reference.weights()), absl::OkStatus());
  const PlacedBatch batch = {RandomSequences(4, 12, kVocabulary, 5), 0};
  reference.BeginStep(0);
  reference.AddMicroBatch(batch.batch, batch.first_example);
  const auto result = (*rank)->Train({batch});
  ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<uint64_t>& loads = result->sums.expert_loads;
  EXPECT_EQ(loads, reference.expert_loads());
  // Each of the four experts of the second block takes 3/4 of 2 · 4 · 12 / 4 choices at most.
  ASSERT_EQ(loads.size(), 2u * 5);
  for (int e = 0; e < 4; ++e) EXPECT_LE(loads[5 + e], 18u);
  EXPECT_GE(loads[9], 24u);
  EXPECT_EQ(std::accumulate(loads.begin() + 5, loads.end(), uint64_t{0}), 2 * 4 * 12);
}

TEST(DeviceExpertsTest, RanksDropWhatOneDrops) {
  DeviceTestJob data = JobWithExperts(1);
  data.transformer = WithLimits();
  data.ranks = 2;
  data.stage = 1;
  ExpectStepsOfOneProcess(data);
  DeviceTestJob tensor = JobWithExperts(1);
  tensor.transformer = WithLimits();
  tensor.ranks = tensor.tensor = 2;
  ExpectStepsOfOneProcess(tensor);
  DeviceTestJob context = JobWithExperts(1);
  context.transformer = WithLimits();
  context.ranks = context.context = 2;
  ExpectStepsOfOneProcess(context);
}

TEST(DeviceExpertsTest, StagesMakeTheStepsOfOneExhaustive) {
  for (const char* const schedule : {"ONE_F_ONE_B", "ZERO_BUBBLE"}) {
    DeviceTestJob stages = JobWithExperts(2);
    stages.ranks = stages.pipeline = 2;
    stages.schedule = schedule;
    ExpectStepsOfOneProcess(stages);
  }
}

// No product has an activation function in it, so what is made again has the same bits.
TEST(DeviceExpertsTest, RecomputationEndsInTheSameBits) {
  DeviceTestJob job = JobWithExperts(1);
  const Trained& expected = TrainOnce(job);
  for (const char* const recompute : {"recompute: SELECTIVE", "recompute: FULL"}) {
    job.compute = recompute;
    EXPECT_EQ(Train(job).weights, expected.weights) << recompute;
  }
}

}  // namespace
}  // namespace muster
