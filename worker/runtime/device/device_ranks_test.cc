// Tests ranks as threads, each with an emulated device, against one process on the joined batch.
#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"
#include "worker/runtime/device/cpu_reference_for_testing.h"
#include "worker/runtime/device/device_rank_for_testing.h"

namespace muster {
namespace {

constexpr int64_t kRanksVocabulary = 29;
constexpr int64_t kRanksLength = 7;
constexpr int kRanksSteps = 3;

const char kShape[] =
    "layers: 2 width: 32 heads: 4 kv_heads: 2 context: 7 activation: SWIGLU feed_forward: 24 "
    "dropout: 0.1";

// Runs `body` on a thread for each rank.
void RunRanks(InProcessGroup& group, int size,
              const std::function<void(std::unique_ptr<Communicator>)>& body) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&group, &body, rank] {
      body(MakeHostCommunicator(group.Join(rank), {.same_machine = true}).value());
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// Micro-batches have at most 4 sequences.
v1::JobSpec Job(int workers) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("model { transformer { ", kShape, " } } workers: ", workers,
                   " batch_size: ", 4 * workers,
                   R"pb(
                     compute { device: CUDA type: F32 }
                     update {
                       dense: ALL_REDUCE
                       sparse: ALL_REDUCE
                       # Several buckets, which end within units.
                       first_bucket_bytes: 3000
                       bucket_bytes: 10000
                     }
                     # A large epsilon, or rounding in gradients that are 0 would move weights by
                     # whole steps.
                     optimizer { name: "adamw" learning_rate: 0.5 epsilon: 0.1 weight_decay: 0.1 }
                     clipping { by_global_norm: 0.3 }
                     seed: 5
                   )pb"),
      &spec));
  return spec;
}

// Returns a rank with the reference's weights, alone without a communicator. Null, and a failed
// test, after an error.
std::unique_ptr<DeviceRank> MakeRank(std::unique_ptr<Communicator> communicator, uint64_t weights) {
  CpuReference reference(kShape, kRanksVocabulary, "");
  reference.SetWeights(weights);
  const int workers = communicator == nullptr ? 1 : communicator->size();
  DeviceRank::Place place;
  place.host = std::move(communicator);
  auto rank = DeviceRank::Create(Job(workers), kRanksVocabulary, std::move(place));
  EXPECT_TRUE(rank.ok()) << rank.status();
  if (!rank.ok()) return nullptr;
  EXPECT_EQ((*rank)->SetWeights(reference.weights()), absl::OkStatus());
  return *std::move(rank);
}

std::vector<std::vector<float>> Weights(DeviceRank& rank) {
  auto weights = rank.Weights();
  EXPECT_TRUE(weights.ok()) << weights.status();
  return weights.ok() ? *std::move(weights) : std::vector<std::vector<float>>();
}

Batch StepBatch(uint64_t clock) {
  return RandomSequences(6, kRanksLength, kRanksVocabulary, 50 + clock);
}

struct TrainedRank {
  std::vector<std::vector<float>> weights;
  // This rank's sums, by step.
  std::vector<StepSums> sums;
};

// Trains on sequences [first, first + count) of every step, in two micro-batches, the first of
// which has `cut` sequences.
TrainedRank TrainRank(DeviceRank& rank, int64_t first, int64_t cut, int64_t count) {
  TrainedRank trained;
  for (uint64_t clock = 0; clock < kRanksSteps; ++clock) {
    const Batch batch = StepBatch(clock);
    const auto placed = [&](int64_t begin, int64_t sequences) {
      return PlacedBatch{SequencesOf(batch, begin, sequences), static_cast<uint64_t>(begin)};
    };
    const auto result = rank.Train({placed(first, cut), placed(first + cut, count - cut)});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return trained;
    trained.sums.push_back(result->sums);
  }
  trained.weights = Weights(rank);
  return trained;
}

void ExpectNearWeights(const std::vector<std::vector<float>>& weights,
                       const std::vector<std::vector<float>>& expected) {
  ASSERT_EQ(weights.size(), expected.size());
  for (size_t t = 0; t < expected.size(); ++t) {
    EXPECT_LE(RelativeDistance(weights[t], expected[t]), 1e-5) << "tensor " << t;
  }
}

class DeviceRanksTest : public ::testing::TestWithParam<int> {};

// Returns what one process trains on the joined batch.
const TrainedRank& Alone() {
  static const TrainedRank* const alone = [] {
    const auto one = MakeRank(nullptr, 1);
    return new TrainedRank(one == nullptr ? TrainedRank() : TrainRank(*one, 0, 4, 6));
  }();
  return *alone;
}

TEST_P(DeviceRanksTest, RanksAreOneProcessOnTheJoinedBatch) {
  const TrainedRank& alone = Alone();
  const int world = GetParam();
  std::vector<TrainedRank> ranks(world);
  InProcessGroup group(world);
  RunRanks(group, world, [&](std::unique_ptr<Communicator> communicator) {
    const int number = communicator->rank();
    const auto rank = MakeRank(std::move(communicator), 1);
    ASSERT_NE(rank, nullptr);
    const int64_t share = 6 / world;
    ranks[number] = TrainRank(*rank, number * share, 1, share);
    // Each step's number of examples goes to all at once.
    const StrategyCounters counters = rank->strategy().counters();
    EXPECT_EQ(counters.other_bytes_sent, kRanksSteps * (world - 1) * sizeof(double));
    EXPECT_EQ(counters.other_bytes_received, counters.other_bytes_sent);
    EXPECT_GT(counters.bytes_sent, counters.other_bytes_sent);
    const Communicator& summing = rank->strategy().groups()->Group(kGradientAxes);
    const CollectiveTraffic gradients = summing.traffic();
    EXPECT_EQ(counters.bytes_sent, gradients.sent);
    EXPECT_EQ(counters.bytes_received, gradients.received);
    for (const RecordedCall& call : summing.recorder().Calls()) {
      EXPECT_TRUE(absl::StartsWith(call.label, "bucket ")) << call.label;
    }
  });
  ASSERT_EQ(alone.sums.size(), kRanksSteps);
  for (int step = 0; step < kRanksSteps; ++step) {
    StepSums joined;
    for (const TrainedRank& trained : ranks) {
      ASSERT_EQ(trained.sums.size(), kRanksSteps);
      joined.loss_sum += trained.sums[step].loss_sum;
      joined.loss_weight += trained.sums[step].loss_weight;
    }
    EXPECT_NEAR(joined.loss_sum, alone.sums[step].loss_sum, 1e-5 * joined.loss_sum);
    EXPECT_EQ(joined.loss_weight, alone.sums[step].loss_weight);
  }
  for (const TrainedRank& trained : ranks) {
    ExpectNearWeights(trained.weights, alone.weights);
    EXPECT_EQ(trained.weights, ranks[0].weights) << "every rank has the same bits";
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, DeviceRanksTest, ::testing::Values(3));
INSTANTIATE_TEST_SUITE_P(ExhaustiveWorlds, DeviceRanksTest, ::testing::Values(2));

// Trains a step on the rank's share of its sequences.
void TrainShare(DeviceRank& rank, uint64_t clock, int number, int ranks) {
  const int64_t share = 6 / ranks;
  const int64_t first = number * share;
  const auto result =
      rank.Train({{SequencesOf(StepBatch(clock), first, share), static_cast<uint64_t>(first)}});
  ASSERT_TRUE(result.ok()) << result.status();
}

// Two ranks divide the parameters and make a step; then a third one comes.
void ExpectShardsAreDividedAnew(uint32_t stage) {
  v1::JobSpec alone_spec = Job(1);
  alone_spec.set_batch_size(6);
  const auto alone = DeviceRank::Create(alone_spec, kRanksVocabulary);
  ASSERT_TRUE(alone.ok()) << alone.status();
  for (const uint64_t clock : {0, 1}) TrainShare(**alone, clock, 0, 1);
  const std::vector<std::vector<float>> expected = Weights(**alone);

  v1::JobSpec spec = Job(3);
  spec.set_min_workers(2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
  InProcessGroup two(2);
  InProcessGroup three(3);
  std::vector<std::vector<std::vector<float>>> before(3), after(3);
  RunRanks(three, 3, [&](std::unique_ptr<Communicator> all) {
    const int number = all->rank();
    DeviceRank::Place place;
    if (number == 2) {
      place.host = std::move(all);
      place.source = 0;
    } else {
      place.host = MakeHostCommunicator(two.Join(number), {.same_machine = true}).value();
    }
    auto rank = DeviceRank::Create(spec, kRanksVocabulary, std::move(place));
    ASSERT_TRUE(rank.ok()) << rank.status();
    if (number < 2) {
      TrainShare(**rank, 0, number, 2);
      before[number] = Weights(**rank);
      ASSERT_EQ((*rank)->Meet(std::move(all), /*source=*/0), absl::OkStatus());
    }
    EXPECT_EQ((*rank)->strategy().shard_state().shard().size(Axis::kShard), 3);
    after[number] = Weights(**rank);
    TrainShare(**rank, 1, number, 3);
    ExpectNearWeights(Weights(**rank), expected);
  });
  EXPECT_FALSE(before[0].empty());
  for (const std::vector<std::vector<float>>& weights : after) EXPECT_EQ(weights, before[0]);
}

TEST(DeviceRanksShardsTest, ShardsAreDividedAnewWhenARankComes) { ExpectShardsAreDividedAnew(3); }

TEST(DeviceRanksShardsTest, ShardsAreDividedAnewWhenARankComesExhaustive) {
  ExpectShardsAreDividedAnew(1);
  ExpectShardsAreDividedAnew(2);
}

// A rank without sequences takes part, and one that goes away is an error on the others, which keep
// their weights.
TEST(DeviceRanksFailureTest, AMissingRankIsAnErrorAndWeightsStay) {
  const std::vector<PlacedBatch> two = {{SequencesOf(StepBatch(0), 0, 2), 0}};
  const auto one = MakeRank(nullptr, 2);
  ASSERT_NE(one, nullptr);
  ASSERT_TRUE(one->Train(two).ok());
  const std::vector<std::vector<float>> alone = Weights(*one);
  InProcessGroup group(2);
  std::barrier<> first_step_over(2);
  RunRanks(group, 2, [&](std::unique_ptr<Communicator> communicator) {
    const int number = communicator->rank();
    const auto rank = MakeRank(std::move(communicator), 2);
    ASSERT_NE(rank, nullptr);
    const auto first = number == 0 ? rank->Train({{Batch(), 0}}) : rank->Train(two);
    ASSERT_TRUE(first.ok()) << first.status();
    const std::vector<std::vector<float>> weights = Weights(*rank);
    ExpectNearWeights(weights, alone);
    first_step_over.arrive_and_wait();
    if (number == 0) {
      group.Kill(0);
      return;
    }
    const auto second = rank->Train(two);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable) << second.status();
    EXPECT_EQ(Weights(*rank), weights);
  });
}

TEST(DeviceRanksFailureTest, AStepGivenUpHalfWayKeepsNobodyWaiting) {
  InProcessGroup group(2);
  std::barrier<> given_up(2);
  RunRanks(group, 2, [&](std::unique_ptr<Communicator> communicator) {
    const int number = communicator->rank();
    auto rank = MakeRank(std::move(communicator), 2);
    ASSERT_NE(rank, nullptr);
    if (number == 0) {
      ASSERT_EQ(rank->strategy().BeginStep(0), absl::OkStatus());
      ASSERT_EQ(rank->strategy().BeforeBackward(1, SeriesPosition::kLast), absl::OkStatus());
      rank = nullptr;
      given_up.arrive_and_wait();
      return;
    }
    given_up.arrive_and_wait();
    EXPECT_FALSE(rank->Train({{SequencesOf(StepBatch(0), 0, 2), 0}}).ok());
  });
}

}  // namespace
}  // namespace muster
