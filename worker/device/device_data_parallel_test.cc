// Ranks as threads, each with an emulated device, against one process on the joined batch.
#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport.h"
#include "worker/device/cpu_reference_for_testing.h"
#include "worker/device/device_trainer_for_testing.h"

namespace muster {
namespace {

constexpr int64_t kVocabulary = 29;
constexpr int64_t kLength = 7;
constexpr uint64_t kSeed = 5;
constexpr int kSteps = 3;

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

DeviceTrainerOptions Options(const TransformerShape& shape) {
  DeviceTrainerOptions options;
  options.shape = shape;
  options.compute.type = DType::kF32;
  options.compute.sequences = 4;
  options.compute.length = kLength;
  options.compute.workspace_bytes = 256;
  options.seed = kSeed;
  options.clip.max_norm = 0.3f;
  options.optimizer.weight_decay = 0.1f;
  // Large, or rounding in gradients that are 0 would move weights by whole steps.
  options.optimizer.epsilon = 0.1f;
  // Several buckets, which end within units.
  options.buckets = {.first_bucket_bytes = 3000, .bucket_bytes = 10000};
  return options;
}

void SetWeights(DeviceTrainer& trainer, CpuReference& reference) {
  for (size_t t = 0; t < reference.weights().size(); ++t) {
    if (reference.weights()[t].empty()) continue;
    ASSERT_TRUE(
        trainer.Write(DeviceSpace::kWeights, static_cast<int>(t), reference.weights()[t]).ok());
  }
}

std::vector<std::vector<float>> Weights(DeviceTrainer& trainer) {
  std::vector<std::vector<float>> all;
  const auto& specs = trainer.parameters().tensors().specs;
  for (size_t t = 0; t < specs.size(); ++t) {
    all.emplace_back(specs[t].tied_to.empty() ? specs[t].elements() : 0);
    if (all.back().empty()) continue;
    EXPECT_TRUE(
        trainer.Read(DeviceSpace::kWeights, static_cast<int>(t), absl::MakeSpan(all.back())).ok());
  }
  return all;
}

Batch StepBatch(uint64_t clock) { return RandomSequences(6, kLength, kVocabulary, 50 + clock); }

struct Trained {
  std::vector<std::vector<float>> weights;
  // By step: this rank's part of the mean.
  std::vector<double> losses;
};

// Sequences [first, first + count) of every step, in two micro-batches.
void Train(DeviceTrainer& trainer, int64_t first, int64_t count, Trained& trained) {
  for (uint64_t clock = 0; clock < kSteps; ++clock) {
    const Batch batch = StepBatch(clock);
    ASSERT_TRUE(trainer.BeginStep(clock).ok());
    ASSERT_TRUE(
        trainer.AddMicroBatch(SequencesOf(batch, first, 1), first, SeriesPosition::kMoreFollow)
            .ok());
    ASSERT_TRUE(trainer
                    .AddMicroBatch(SequencesOf(batch, first + 1, count - 1), first + 1,
                                   SeriesPosition::kLast)
                    .ok());
    const auto result = trainer.EndStep(0.5f);
    ASSERT_TRUE(result.ok()) << result.status();
    trained.losses.push_back(result->loss_sum / static_cast<double>(result->tokens));
  }
  trained.weights = Weights(trainer);
}

class DeviceDataParallelTest : public ::testing::TestWithParam<int> {};

TEST_P(DeviceDataParallelTest, RanksAreOneProcessOnTheJoinedBatch) {
  CpuReference reference(kShape, kVocabulary, "");
  reference.SetWeights(1);
  Trained alone;
  {
    const auto trainer = DeviceTrainer::Create(Options(reference.shape()), nullptr);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    SetWeights(**trainer, reference);
    // In micro-batches of at most 4 sequences.
    for (uint64_t clock = 0; clock < kSteps; ++clock) {
      const Batch batch = StepBatch(clock);
      ASSERT_TRUE((*trainer)->BeginStep(clock).ok());
      ASSERT_TRUE(
          (*trainer)->AddMicroBatch(SequencesOf(batch, 0, 4), 0, SeriesPosition::kMoreFollow).ok());
      ASSERT_TRUE(
          (*trainer)->AddMicroBatch(SequencesOf(batch, 4, 2), 4, SeriesPosition::kLast).ok());
      const auto result = (*trainer)->EndStep(0.5f);
      ASSERT_TRUE(result.ok()) << result.status();
      alone.losses.push_back(result->loss_sum / static_cast<double>(result->tokens));
    }
    alone.weights = Weights(**trainer);
  }
  const int world = GetParam();
  std::vector<Trained> ranks(world);
  InProcessGroup group(world);
  RunRanks(group, world, [&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    CpuReference weights(kShape, kVocabulary, "");
    weights.SetWeights(1);
    const auto trainer = DeviceTrainer::Create(Options(weights.shape()), communicator.get());
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    SetWeights(**trainer, weights);
    const int64_t share = 6 / world;
    Train(**trainer, rank * share, share, ranks[rank]);
    // They are small, and go to all at once.
    const uint64_t sums = kSteps * (world - 1) * sizeof(HeadSums);
    EXPECT_EQ((*trainer)->sums_traffic().sent, sums);
    EXPECT_EQ((*trainer)->sums_traffic().received, sums);
    EXPECT_GT(communicator->traffic().sent, sums) << "gradients";
  });
  for (int step = 0; step < kSteps; ++step) {
    double loss = 0;
    for (const Trained& trained : ranks) {
      ASSERT_EQ(trained.losses.size(), kSteps);
      loss += trained.losses[step];
    }
    EXPECT_NEAR(loss, alone.losses[step], 1e-5 * alone.losses[step]);
  }
  for (const Trained& trained : ranks) {
    for (size_t t = 0; t < alone.weights.size(); ++t) {
      if (alone.weights[t].empty()) continue;
      EXPECT_LE(RelativeDistance(trained.weights[t], alone.weights[t]), 1e-5)
          << reference.tensors()[t].name;
    }
    EXPECT_EQ(trained.weights, ranks[0].weights) << "every rank has the same bits";
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, DeviceDataParallelTest, ::testing::Values(2, 3));

// A rank without sequences takes part, and one that goes away is an error on the others, which keep
// their weights.
TEST(DeviceDataParallelFailureTest, AMissingRankIsAnErrorAndWeightsStay) {
  InProcessGroup group(2);
  std::barrier<> first_step_over(2);
  RunRanks(group, 2, [&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    CpuReference reference(kShape, kVocabulary, "");
    reference.SetWeights(2);
    const auto trainer = DeviceTrainer::Create(Options(reference.shape()), communicator.get());
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    SetWeights(**trainer, reference);
    const Batch batch = StepBatch(0);
    ASSERT_TRUE((*trainer)->BeginStep(0).ok());
    ASSERT_TRUE(
        (*trainer)
            ->AddMicroBatch(SequencesOf(batch, 0, rank == 0 ? 0 : 2), 0, SeriesPosition::kLast)
            .ok());
    const auto first = (*trainer)->EndStep(0.5f);
    ASSERT_TRUE(first.ok()) << first.status();
    // Rank 0 brought none; all of these are rank 1's.
    EXPECT_EQ(first->tokens, 2 * kLength - 2);
    const auto weights = Weights(**trainer);
    first_step_over.arrive_and_wait();
    if (rank == 0) {
      group.Kill(0);
      return;
    }
    ASSERT_TRUE((*trainer)->BeginStep(1).ok());
    ASSERT_TRUE((*trainer)->AddMicroBatch(SequencesOf(batch, 0, 2), 0, SeriesPosition::kLast).ok());
    const auto second = (*trainer)->EndStep(0.5f);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable) << second.status();
    EXPECT_EQ(Weights(**trainer), weights);
    EXPECT_EQ((*trainer)->steps(), 1);
  });
}

}  // namespace
}  // namespace muster
