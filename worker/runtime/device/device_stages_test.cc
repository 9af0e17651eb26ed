// Tests that ranks on emulated devices make the same steps under all ZeRO stages: as stage 0 does,
// as one process on the joined batch does, and on from each other's checkpoints.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/partition/gathers_of_step_for_testing.h"
#include "common/partition/stage_holding.h"
#include "common/partition/unit_places.h"
#include "common/plan/device/device_shard_plan.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"
#include "worker/runtime/device/device_jobs_for_testing.h"
#include "worker/runtime/device/device_rank_for_testing.h"
#include "worker/strategy/shard_state.h"

namespace muster {
namespace {

// With a head of its own, and fewer tensors in a unit.
const char kSeparate[] =
    "layers: 2 width: 12 heads: 3 context: 7 norm: RMS_NORM positions: ROTARY activation: SWIGLU "
    "no_biases: true separate_head: true";

// Returns the bytes that a rank sends for gradients and weights in each step.
uint64_t BytesOfStep(const DeviceTestJob& job) {
  const v1::TablesSchema schema = SchemaOf(job);
  const auto state = ShardState::Create(schema, {Mesh({.shard = job.ranks}), 0}).value();
  const ShardLayout& layout = state->shard_layout();
  const StageHolding holding = HoldingOfStage(job.stage);
  const int units = static_cast<int>(state->tables().tensors.back().unit) + 1;
  std::vector<int> gathers(units, 1);
  if (holding.weights == UnitPlaces::Holding::kInFlight) {
    const UnitPlaces places(layout, state->tables().tensors, *holding.weights,
                            UnitPlaces::Content::kWeights, job.kept_bytes);
    gathers = GathersOfStep(units, places, job.micro_batches);
  }
  const bool each = holding.gradients == UnitPlaces::Holding::kInFlight;
  uint64_t bytes = 0;
  for (const ShardLayout::Part& part : layout.parts()) {
    const uint64_t others = (job.ranks - 1) * part.slice;
    bytes += others * sizeof(float) * (each ? job.micro_batches : 1);
    bytes += others * SizeOf(part.compute) * gathers[part.unit];
  }
  return bytes;
}

// The number of ranks, of micro-batches, the type, and whether the head is tied.
using Parameters = std::tuple<int, int, std::string, bool>;

class DeviceStagesTest : public ::testing::TestWithParam<Parameters> {
 protected:
  DeviceTestJob JobOf(uint32_t stage) const {
    const auto& [ranks, micro_batches, type, tied] = GetParam();
    return {.stage = stage,
            .ranks = ranks,
            .micro_batches = micro_batches,
            .type = type,
            .transformer = tied ? kTied : kSeparate};
  }
};

TEST_P(DeviceStagesTest, AllStagesMakeTheSameSteps) {
  const auto& [ranks, micro_batches, type, tied] = GetParam();
  std::vector<Trained> stages;
  for (const uint32_t stage : {0, 1, 2, 3}) {
    const DeviceTestJob job = JobOf(stage);
    stages.push_back(Train(job));
    // Nothing is gathered after a step that an f16 job leaves out.
    if (stage == 0 || type == "F16") continue;
    EXPECT_EQ(stages[stage].bytes_sent, kSteps * BytesOfStep(job)) << stage;
    EXPECT_GT(stages[stage].other_bytes_sent, 0) << stage;
  }
  const double bound = type == "F32" ? 1e-5 : 1e-2;
  for (const uint32_t stage : {1, 2, 3}) ExpectNear(stages[stage], stages[0], bound);
  ExpectSameBits(stages[3], stages[2]);
  if (micro_batches == 1) ExpectSameBits(stages[2], stages[1]);
  // Two ranks' sums do not depend on their order, which all-reduces of another length choose.
  if (ranks == 2) ExpectSameBits(stages[1], stages[0]);
}

std::string NameOfStages(const ::testing::TestParamInfo<Parameters>& info) {
  const auto& [ranks, micro_batches, type, tied] = info.param;
  return absl::StrCat(ranks, "Ranks", micro_batches, "MicroBatches", type,
                      tied ? "Tied" : "Separate");
}

// Each type, two to four ranks, and one micro-batch and several.
INSTANTIATE_TEST_SUITE_P(Jobs, DeviceStagesTest,
                         ::testing::Values(Parameters{2, 3, "BF16", false},
                                           Parameters{3, 1, "F16", true},
                                           Parameters{4, 3, "F32", true}),
                         NameOfStages);
INSTANTIATE_TEST_SUITE_P(
    ExhaustiveJobs, DeviceStagesTest,
    ::testing::Values(Parameters{2, 1, "F32", true}, Parameters{2, 1, "F32", false},
                      Parameters{2, 3, "BF16", true}, Parameters{3, 2, "F32", true},
                      Parameters{3, 2, "F32", false}, Parameters{3, 1, "F16", false},
                      Parameters{4, 3, "F32", false}, Parameters{4, 1, "BF16", true},
                      Parameters{4, 1, "BF16", false}),
    NameOfStages);

void ExpectOneProcessOnTheJoinedBatch(const std::vector<uint32_t>& stages) {
  DeviceTestJob alone = {.ranks = 1, .micro_batches = 2, .max_norm = 0.3};
  const Trained& joined = TrainOnce(alone);
  for (const uint32_t stage : stages) {
    DeviceTestJob job = alone;
    job.stage = stage;
    job.ranks = 3;
    const Trained divided = Train(job);
    ExpectNear(divided, joined, 1e-5);
    for (size_t step = 0; step < kSteps; ++step) {
      EXPECT_GT(joined.norms[step], 0.3) << "clipping must matter";
      EXPECT_NEAR(divided.norms[step], joined.norms[step], 1e-5 * joined.norms[step]);
    }
  }
}

// The stages are compared with each other above.
TEST(DeviceStagesReferenceTest, StagesAreOneProcessOnTheJoinedBatch) {
  ExpectOneProcessOnTheJoinedBatch({3});
}

TEST(DeviceStagesReferenceTest, StagesAreOneProcessOnTheJoinedBatchExhaustive) {
  ExpectOneProcessOnTheJoinedBatch({1, 2});
}

// One block's matrices fit, and no more.
TEST(DeviceKeptUnitsTest, UnitsThatStayGatheredAreGatheredOnceAStep) {
  DeviceTestJob job = {.stage = 3, .ranks = 2, .micro_batches = 3};
  const Trained dropped = Train(job);
  const uint64_t bytes = BytesOfStep(job);
  job.kept_bytes = 16000;
  const Trained kept = Train(job);
  ExpectSameBits(kept, dropped);
  EXPECT_EQ(kept.bytes_sent, kSteps * BytesOfStep(job));
  EXPECT_LT(BytesOfStep(job), bytes);
}

// Two groups of two ranks, which have replicas of the two shards.
void ExpectGroupsOfShards(const std::vector<uint32_t>& stages) {
  DeviceTestJob job = {.ranks = 4, .micro_batches = 3, .max_norm = 0.3};
  const Trained& whole = TrainOnce(job);
  job.shard = 2;
  for (const uint32_t stage : stages) {
    job.stage = stage;
    ExpectNear(Train(job), whole, 1e-5);
  }
}

TEST(DeviceReplicasOfShardsTest, GroupsOfShardsAddTheirSums) { ExpectGroupsOfShards({3}); }

TEST(DeviceReplicasOfShardsTest, GroupsOfShardsAddTheirSumsExhaustive) {
  ExpectGroupsOfShards({1, 2});
}

// What is not in the rank's own block of device memory, whose size is the plan's.
void ExpectPlannedAllocations(const std::vector<uint32_t>& stages) {
  for (const uint32_t stage : stages) {
    const DeviceTestJob job = {.stage = stage, .ranks = 2, .type = "BF16"};
    const v1::JobSpec spec = SpecOf(job);
    const auto state = ShardState::Create(SchemaOf(job)).value();
    const DeviceShardExtents planned =
        PlanDeviceShard(spec, /*shards=*/2, state->tables().tensors, DType::kBf16).value();
    InProcessGroup group(job.ranks);
    std::vector<std::thread> ranks;
    for (int number = 0; number < job.ranks; ++number) {
      ranks.emplace_back([&, number] {
        size_t allocated = 0;
        DeviceRank::Place place;
        place.host = MakeHostCommunicator(group.Join(number), {.same_machine = true}).value();
        place.make_communicator = [&allocated](Communicator& host) {
          return std::make_unique<WatchedCommunicator>(
              host.Split(0, host.rank()).value(),
              [&allocated](size_t bytes) { allocated += bytes; });
        };
        const auto rank = DeviceRank::Create(spec, kVocabulary, std::move(place));
        ASSERT_TRUE(rank.ok()) << rank.status();
        EXPECT_EQ(allocated, planned.gathered_bytes + planned.gradient_bytes) << stage;
        EXPECT_GT(allocated, 0);
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
}

TEST(DeviceStagesMemoryTest, CommunicatorsAllocateWhatIsPlanned) { ExpectPlannedAllocations({3}); }

TEST(DeviceStagesMemoryTest, CommunicatorsAllocateWhatIsPlannedExhaustive) {
  ExpectPlannedAllocations({1, 2});
}

// Stages and their ranks.
using StagesOfRanks = std::vector<std::pair<uint32_t, int>>;

// Expects that `others` go on from the files that four ranks of `stage` leave, and that these train
// on as if nothing had happened, where that is asked for.
void ExpectOthersGoOnFromRanks(uint32_t stage, const StagesOfRanks& others, bool trains_on) {
  const DeviceTestJob job = {.stage = stage, .ranks = 4, .type = "BF16"};
  Checkpoints checkpoints;
  const Trained cut = Train(job, checkpoints, 2);
  EXPECT_EQ(cut.steps, std::vector<uint64_t>(cut.steps.size(), 2));
  const std::string uri = checkpoints.restore_uri;
  for (const auto& [other_stage, ranks] : others) {
    checkpoints.restore_uri = uri;
    const DeviceTestJob other = {.stage = other_stage, .ranks = ranks, .type = "BF16"};
    const Trained restored = Train(other, checkpoints, 0);
    EXPECT_EQ(restored.weights, cut.weights) << stage << other_stage << ranks;
    EXPECT_EQ(restored.optimizer_state, cut.optimizer_state) << stage << other_stage << ranks;
    EXPECT_EQ(restored.steps, cut.steps);
  }
  if (!trains_on) return;
  checkpoints.restore_uri = uri;
  Checkpoints whole;
  const Trained through = Train(job, whole, 3);
  const Trained on = Train(job, checkpoints, 1);
  EXPECT_EQ(on.weights, through.weights) << stage;
  EXPECT_EQ(on.optimizer_state, through.optimizer_state) << stage;
}

TEST(DeviceStagesRestoreTest, AnyRanksAndStageGoOnFromARanksFiles) {
  ExpectOthersGoOnFromRanks(1, {{3, 2}}, /*trains_on=*/false);
  ExpectOthersGoOnFromRanks(3, {{0, 1}, {2, 3}}, /*trains_on=*/true);
}

TEST(DeviceStagesRestoreTest, AnyRanksAndStageGoOnFromARanksFilesExhaustive) {
  const StagesOfRanks all = {{0, 1}, {1, 2}, {2, 3}, {3, 2}, {3, 4}};
  ExpectOthersGoOnFromRanks(0, all, /*trains_on=*/true);
  ExpectOthersGoOnFromRanks(1, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}, /*trains_on=*/true);
  ExpectOthersGoOnFromRanks(2, all, /*trains_on=*/true);
  ExpectOthersGoOnFromRanks(3, {{1, 2}, {3, 2}, {3, 4}}, /*trains_on=*/false);
}

// The loss scale grows after each step until gradients overflow.
constexpr int kLossScaleSteps = 6;
// Compares stages with the first of them, and returns what they trained.
std::vector<Trained> ExpectOverflowsAreLeftOut(const std::vector<uint32_t>& of_stages) {
  DeviceTestJob job = {.ranks = 3, .micro_batches = 2, .type = "F16"};
  job.compute = "loss_scale_window: 1";
  std::vector<Trained> stages;
  for (const uint32_t stage : of_stages) {
    job.stage = stage;
    Checkpoints checkpoints;
    stages.push_back(Train(job, checkpoints, kLossScaleSteps));
    const auto left_out = std::count(stages.back().norms.begin(), stages.back().norms.end(), -1);
    EXPECT_GT(left_out, 0) << stage;
    EXPECT_LT(left_out, kLossScaleSteps) << stage;
    EXPECT_EQ(stages.back().loss_scale, stages[0].loss_scale) << stage;
    EXPECT_EQ(stages.back().steps, stages[0].steps) << stage;
  }
  return stages;
}

TEST(DeviceStagesLossScaleTest, AStepThatOverflowsAnywhereIsLeftOutEverywhere) {
  ExpectOverflowsAreLeftOut({0, 3});
}

TEST(DeviceStagesLossScaleTest, AStepThatOverflowsAnywhereIsLeftOutEverywhereExhaustive) {
  const std::vector<Trained> stages = ExpectOverflowsAreLeftOut({0, 1, 2, 3});
  ExpectSameBits(stages[3], stages[2]);
}

}  // namespace
}  // namespace muster
