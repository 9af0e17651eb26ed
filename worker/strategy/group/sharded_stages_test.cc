// Checks that all stages of ZeRO make the same steps: they read, sum and leave out the same, and go
// on alike after a loss or a restore.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/partition/gathers_of_step_for_testing.h"
#include "common/partition/unit_places.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/schema.pb.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/nn/loss_scaler.h"
#include "worker/strategy/group/exchange/rank_groups.h"
#include "worker/strategy/group/sharded_job_for_testing.h"
#include "worker/strategy/group/sharded_strategy.h"
#include "worker/strategy/group/test_manifest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

using Job = ShardedJob;
using Rank = ShardedTask;

constexpr int kUnits = ShardedTask::kUnits;

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

class ShardedStagesTest : public ::testing::TestWithParam<std::tuple<uint32_t, int>> {
 protected:
  Job TheJob() const {
    return {.stage = std::get<0>(GetParam()), .ranks = std::get<1>(GetParam())};
  }
};

TEST_P(ShardedStagesTest, OneMicroBatchMakesTheStepsOfStageZero) {
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    for (const double max_norm : {0.0, 3.0}) {
      SCOPED_TRACE(max_norm);
      Job job = TheJob();
      job.compute = compute;
      job.max_norm = max_norm;
      const std::vector<float> trained = Train(job, 4);
      job.stage = 0;
      EXPECT_EQ(trained, Train(job, 4));
      EXPECT_NE(trained, Train(job, 3));
    }
  }
}

TEST_P(ShardedStagesTest, MicroBatchesSumInTheStagesOrder) {
  Job job = TheJob();
  job.micro_batches = 3;
  job.max_norm = 3;
  const std::vector<float> trained = Train(job, 4);
  Job other = job;
  other.stage = job.stage < 2 ? 0 : 2;
  EXPECT_EQ(trained, Train(other, 4));
  other.stage = 0;
  EXPECT_LE(Distance(trained, Train(other, 4)), 1e-5);
}

TEST_P(ShardedStagesTest, PassesReadTheWeightsAndChangeNothing) {
  const Job job = TheJob();
  const std::vector<float> undisturbed = Train(job, 3);
  MemoryStorage storage;
  Whole whole, end;
  TestRanks ranks(job.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    Rank rank(job, communicator->rank(), storage);
    ASSERT_EQ(rank.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    rank.Evaluate();
    ASSERT_EQ(rank.Step(), absl::OkStatus());
    ASSERT_EQ(rank.Step(), absl::OkStatus());
    whole.Add(rank.strategy().shard_state());
    ranks.AwaitAll();
    for (int pass = 0; pass < 2; ++pass) {
      const std::vector<std::vector<float>> read = rank.Evaluate();
      for (size_t t = 0; t < read.size(); ++t) {
        const uint64_t begin = rank.strategy().shard_state().layout().tensor_offset(t);
        EXPECT_EQ(absl::MakeConstSpan(read[t]),
                  absl::MakeConstSpan(whole.weights()).subspan(begin, read[t].size()));
      }
    }
    ASSERT_EQ(rank.Step(), absl::OkStatus());
    end.Add(rank.strategy().shard_state());
  });
  EXPECT_EQ(end.weights(), undisturbed);
}

TEST_P(ShardedStagesTest, AStepInWhichAnyRankOverflowedIsLeftOutByAll) {
  Job job = TheJob();
  job.compute = DType::kF16;
  const std::vector<float> one = Train(job, 1);
  MemoryStorage storage;
  Whole whole;
  TestRanks ranks(job.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    Rank rank(job, communicator->rank(), storage);
    const bool last = communicator->rank() == job.ranks - 1;
    ASSERT_EQ(rank.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    ASSERT_EQ(rank.Step(), absl::OkStatus());
    EXPECT_EQ(rank.strategy().loss_scale(), 2 * LossScaler::kFirst);
    if (last) rank.Overflow();
    ASSERT_EQ(rank.Step(), absl::OkStatus());
    EXPECT_EQ(rank.strategy().loss_scale(), LossScaler::kFirst);
    EXPECT_THAT(rank.strategy().replica_clock(), Optional(2));
    whole.Add(rank.strategy().shard_state());
    EXPECT_EQ(rank.Step(), absl::OkStatus());
  });
  EXPECT_EQ(whole.weights(), one);
}

// The engine does not see gradients of earlier micro-batches; all ranks see that their sum is bad.
TEST_P(ShardedStagesTest, ASumThatIsNotFiniteEndsTheJob) {
  Job job = TheJob();
  if (job.stage < 2 || job.ranks == 1) GTEST_SKIP() << "the engine sees the sums";
  job.micro_batches = 2;
  MemoryStorage storage;
  TestRanks ranks(job.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    Rank rank(job, communicator->rank(), storage);
    if (communicator->rank() == 1) rank.Overflow();
    ASSERT_EQ(rank.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    const absl::Status status = rank.Step();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the gradient of c is not finite"));
    EXPECT_THAT(rank.strategy().replica_clock(), Optional(0));
  });
}

// Returns how often a step of stages 1 to 3 gathers or scatters the part.
int CallsOf(const ShardLayout::Part& part, const Job& job, const Rank& rank) {
  if (job.stage < 3) return 1 + (job.stage == 1 ? 1 : job.micro_batches);
  const UnitPlaces places(rank.strategy().shard_state().shard_layout(), rank.tensors(),
                          UnitPlaces::Holding::kInFlight, UnitPlaces::Content::kWeights,
                          job.kept_bytes);
  return GathersOfStep(kUnits, places, job.micro_batches)[part.unit] + job.micro_batches;
}

// Rounding, copying and adding up are this rank's own work, and are not counted.
TEST_P(ShardedStagesTest, ExposedAreWaitsForCallsAlone) {
  Job job = TheJob();
  if (job.stage == 0 || job.ranks == 1) GTEST_SKIP() << "buckets are not counted here";
  job.micro_batches = 2;
  MemoryStorage storage;
  TestRanks ranks(job.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    Rank rank(job, communicator->rank(), storage);
    ASSERT_EQ(rank.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    ASSERT_EQ(rank.Step(), absl::OkStatus());
    // One wait is for the exchange of all ranks.
    int waits = 1;
    for (const ShardLayout::Part& part : rank.strategy().shard_state().shard_layout().parts()) {
      waits += CallsOf(part, job, rank);
    }
    EXPECT_EQ(rank.strategy().counters().exposed_seconds, waits);
  });
}

// The bytes of dense gradients and weights, padding included, are those of the byte table.
void ExpectBytesOfItsStage(const Job& job) {
  MemoryStorage storage;
  TestRanks ranks(job.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    Rank rank(job, communicator->rank(), storage);
    ASSERT_EQ(rank.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    for (int step = 0; step < 3; ++step) {
      rank.Evaluate();
      ASSERT_EQ(rank.Step(), absl::OkStatus());
      ASSERT_TRUE(rank.strategy().Cut(step + 1).ok());
      ASSERT_TRUE(rank.strategy().EndCut(CutEnd::kTryAgain).ok());
    }
    uint64_t expected = 0;
    for (const ShardLayout::Part& part : rank.strategy().shard_state().shard_layout().parts()) {
      const uint64_t once = part.slice * (job.ranks - 1) * sizeof(float);
      expected += once * CallsOf(part, job, rank);
    }
    EXPECT_EQ(rank.strategy().counters().bytes_sent, 3 * expected);
    EXPECT_EQ(rank.strategy().counters().bytes_received, rank.strategy().counters().bytes_sent);
  });
}

TEST_P(ShardedStagesTest, MovesTheBytesOfItsStage) {
  Job job = TheJob();
  if (job.stage == 0) GTEST_SKIP() << "predicted elsewhere";
  job.micro_batches = 2;
  ExpectBytesOfItsStage(job);
}

// There is memory for none of the units that share places, for one, and for all.
TEST_P(ShardedStagesTest, KeptUnitsAreGatheredOnceAndChangeNothing) {
  Job job = TheJob();
  if (job.stage != 3) GTEST_SKIP() << "others keep everything gathered";
  job.micro_batches = 3;
  const std::vector<float> undisturbed = Train(job, 3);
  for (const uint64_t kept_bytes : {16, 256, 1 << 20}) {
    SCOPED_TRACE(kept_bytes);
    job.kept_bytes = kept_bytes;
    ExpectBytesOfItsStage(job);
    EXPECT_EQ(Train(job, 3), undisturbed);
  }
}

// A rank dies with gradients of the third step under way.
TEST_P(ShardedStagesTest, AfterALossTheShardIsAsItWas) {
  const Job job = TheJob();
  if (job.ranks == 1) GTEST_SKIP() << "nobody is left";
  const std::vector<float> before = Train(job, 2);
  MemoryStorage storage;
  Whole whole;
  TestRanks ranks(job.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    const bool dies = communicator->rank() == 1;
    Rank rank(job, communicator->rank(), storage);
    ASSERT_EQ(rank.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    for (int step = 0; step < 2; ++step) ASSERT_EQ(rank.Step(), absl::OkStatus());
    whole.Add(rank.strategy().shard_state());
    ranks.AwaitAll();
    if (dies) return ranks.Kill(1);
    EXPECT_EQ(rank.Step().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(rank.strategy().replica_clock(), Optional(2));
    rank.strategy().Leave();
    EXPECT_THAT(rank.strategy().replica_clock(), Optional(2));
    whole.Add(rank.strategy().shard_state());
  });
  EXPECT_EQ(whole.weights(), before);
}

using StageAndRanks = ShardedStagesTest::ParamType;

// Returns whether a default run has them: all stages and numbers of ranks, but few of their pairs.
bool IsDefault(const StageAndRanks& parameters) {
  const std::vector<StageAndRanks> chosen = {{0, 1}, {0, 3}, {1, 4}, {2, 1},
                                             {2, 3}, {3, 2}, {3, 8}};
  return std::count(chosen.begin(), chosen.end(), parameters) > 0;
}

std::vector<StageAndRanks> StagesAndRanks(bool by_default) {
  std::vector<StageAndRanks> all;
  for (const uint32_t stage : {0, 1, 2, 3}) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      if (IsDefault({stage, ranks}) == by_default) all.emplace_back(stage, ranks);
    }
  }
  return all;
}

std::string NameOfStage(const ::testing::TestParamInfo<StageAndRanks>& info) {
  return "Stage" + std::to_string(std::get<0>(info.param)) + "Ranks" +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(EveryStage, ShardedStagesTest,
                         ::testing::ValuesIn(StagesAndRanks(/*by_default=*/true)), NameOfStage);
INSTANTIATE_TEST_SUITE_P(ExhaustiveEveryStage, ShardedStagesTest,
                         ::testing::ValuesIn(StagesAndRanks(/*by_default=*/false)), NameOfStage);

class ShardGroupsTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ShardGroupsTest, ReplicasOfShardsStayEqualAndNearStageZero) {
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    const Job job = {.stage = GetParam(),
                     .ranks = 6,
                     .shard = 2,
                     .micro_batches = 2,
                     .max_norm = 3,
                     .compute = compute};
    MemoryStorage storage;
    Whole groups[3];
    TestRanks ranks(job.ranks);
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      const int group = communicator->rank() / job.shard;
      Rank rank(job, communicator->rank(), storage);
      ASSERT_EQ(rank.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
      for (int step = 0; step < 4; ++step) ASSERT_EQ(rank.Step(), absl::OkStatus());
      groups[group].Add(rank.strategy().shard_state());
      // There are three records: of all ranks, the shard group and the replicas.
      EXPECT_EQ(rank.strategy().recorders().size(), 3);
    });
    Job plain = job;
    plain.stage = 0;
    EXPECT_LE(Distance(groups[0].weights(), Train(plain, 4)), compute == DType::kF32 ? 1e-5 : 1e-2);
    EXPECT_EQ(groups[1].weights(), groups[0].weights());
    EXPECT_EQ(groups[2].weights(), groups[0].weights());
  }
}

// Checkpoints restore in any stage and number of ranks, with replicas, too. By default each stage
// has one number of ranks to restore in; or else all others.
void CutAndRestore(uint32_t cut_stage, bool by_default) {
  for (const int shard : {0, 2}) {
    SCOPED_TRACE(shard);
    const Job job = {.stage = cut_stage, .ranks = 4, .shard = shard, .max_norm = 3};
    MemoryStorage storage;
    v1::CheckpointManifest manifest;
    TestRanks ranks(job.ranks);
    Whole cut, end;
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      const int number = communicator->rank();
      Rank rank(job, number, storage);
      ASSERT_EQ(rank.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
      for (int step = 0; step < 3; ++step) ASSERT_EQ(rank.Step(), absl::OkStatus());
      const std::vector<PartitionFile> files = rank.strategy().Cut(3).value().by_partition;
      ASSERT_EQ(files.size(), 4);
      ASSERT_EQ(rank.strategy().EndCut(CutEnd::kCommitted).value(), CutEnd::kCommitted);
      cut.Add(rank.strategy().shard_state());
      ranks.AwaitAll();
      for (int step = 0; step < 2; ++step) ASSERT_EQ(rank.Step(), absl::OkStatus());
      end.Add(rank.strategy().shard_state());
      if (number != 0) return;
      manifest = TestManifest(Schema(job), 3, files);
    });
    ASSERT_EQ(WriteManifest(storage, "/root/job/3", manifest), absl::OkStatus());
    ASSERT_EQ(VerifyCheckpoint(storage, "/root/job/3"), absl::OkStatus());
    EXPECT_EQ(Train(job, 5, "/root/job/3", 3, &storage), end.weights());
    for (const uint32_t stage : {0, 1, 2, 3}) {
      for (const int world : {1, 2, 3, 4}) {
        if ((world == static_cast<int>(stage) + 1) != by_default) continue;
        const Job other = {.stage = stage, .ranks = world, .max_norm = 3};
        EXPECT_EQ(Train(other, 3, "/root/job/3", 3, &storage), cut.weights()) << stage << world;
      }
    }
  }
}

TEST_P(ShardGroupsTest, CutsRestoreInAnyStageAndWorld) {
  CutAndRestore(GetParam(), /*by_default=*/true);
}

TEST_P(ShardGroupsTest, CutsRestoreInAnyStageAndWorldExhaustive) {
  CutAndRestore(GetParam(), /*by_default=*/false);
}

TEST_P(ShardGroupsTest, OwnWeightsMakeRoomBeforeGradientsAreAllocated) {
  const Job job = {.stage = GetParam(), .ranks = 2};
  MemoryStorage storage;
  TestRanks ranks(job.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    Rank rank(job, communicator->rank(), storage);
    std::vector<bool> own_weights;
    auto watched = std::make_unique<WatchedCommunicator>(std::move(communicator), [&](size_t) {
      own_weights.push_back(!rank.strategy().shard_state().weights().empty());
    });
    ASSERT_EQ(rank.strategy().Join(std::move(watched), absl::nullopt), absl::OkStatus());
    // The first value is for gathered weights, the second for gradients.
    EXPECT_THAT(own_weights, ::testing::ElementsAre(true, job.stage == 3));
  });
}

TEST_P(ShardGroupsTest, RanksMustHaveTheShardsOfTheirSlots) {
  const Job job = {.stage = GetParam(), .ranks = 2};
  MemoryStorage storage;
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    Rank rank(job, 1 - communicator->rank(), storage);
    EXPECT_EQ(rank.strategy().Join(std::move(communicator), absl::nullopt).code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(rank.strategy().replica_clock(), absl::nullopt);
  });
}

TEST_P(ShardGroupsTest, PlansDifferByStageAndByGroup) {
  MemoryStorage storage;
  const auto fingerprint = [&](const Job& job) {
    return Rank(job, 0, storage).strategy().bucket_plan_fingerprint();
  };
  const Job job = {.stage = GetParam(), .ranks = 4};
  EXPECT_EQ(fingerprint(job), fingerprint(job));
  for (const uint32_t stage : {0, 1, 2, 3}) {
    if (stage == GetParam()) continue;
    EXPECT_NE(fingerprint(job), fingerprint({.stage = stage, .ranks = 4}));
  }
  EXPECT_NE(fingerprint(job), fingerprint({.stage = GetParam(), .ranks = 4, .shard = 2}));
}

INSTANTIATE_TEST_SUITE_P(EveryStage, ShardGroupsTest, ::testing::Values(1, 2, 3));

// The example of rank_groups.h.
TEST(RankGroupsTest, TensorRanksAreNeighboursThenShards) {
  TestRanks ranks(8);
  ranks.Run([&ranks](std::unique_ptr<Communicator> world) {
    const int rank = world->rank();
    const MeshPosition shard(Mesh({.shard = 2, .tensor = 2}), rank % 4);
    const auto groups = RankGroups::Create(std::move(world), shard).value();
    const auto members = [rank](Communicator& group) {
      std::vector<int64_t> others(group.size());
      const int64_t own = rank;
      CollectiveCall gather;
      gather.kind = Collective::kAllGather;
      gather.dtype = DType::kInt64;
      gather.in = &own;
      gather.out = others.data();
      gather.count = 1;
      EXPECT_EQ(group.Run(gather), absl::OkStatus());
      return others;
    };
    const std::vector<int64_t> tensor = members(groups->Group(Axis::kTensor));
    const std::vector<int64_t> data = members(groups->Group(kGradientAxes));
    const std::vector<int64_t> shards = members(groups->Group(kShardAxes));
    const std::vector<int64_t> replicas = members(groups->Group(kCopyAxes));
    ranks.AwaitAll();
    if (rank != 5) return;
    EXPECT_THAT(tensor, ElementsAre(4, 5));
    EXPECT_THAT(data, ElementsAre(1, 3, 5, 7));
    EXPECT_THAT(shards, ElementsAre(5, 7));
    EXPECT_THAT(replicas, ElementsAre(1, 5));
  });
}

TEST(RankGroupsTest, OneDataRankHasNoReplicas) {
  TestRanks ranks(2);
  ranks.Run([&ranks](std::unique_ptr<Communicator> world) {
    const MeshPosition shard(Mesh({.tensor = 2}), world->rank());
    const auto groups = RankGroups::Create(std::move(world), shard).value();
    EXPECT_EQ(groups->Group(Axis::kTensor).size(), 2);
    EXPECT_EQ(groups->Group(kGradientAxes).size(), 1);
    EXPECT_EQ(groups->Others(kCopyAxes), nullptr);
    const absl::Status wrong =
        RankGroups::Create(groups->world().Split(0, 0).value(), shard.Of(1 - shard.rank)).status();
    EXPECT_EQ(wrong.code(), absl::StatusCode::kFailedPrecondition) << wrong;
    ranks.AwaitAll();
  });
}

}  // namespace
}  // namespace muster
