#include "worker/data/sampling/sampler.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SamplerOptions Options(int64_t data_ranks, int64_t batch_size, int64_t training_examples,
                       uint64_t seed = 1) {
  return {.seed = seed,
          .data_ranks = data_ranks,
          .batches = StepBatches(batch_size),
          .training_examples = training_examples};
}

// The batch of one clock, the micro-batches of all data ranks joined in order.
std::vector<int64_t> JoinedBatch(const Sampler& sampler, int64_t clock) {
  std::vector<int64_t> joined;
  std::vector<int64_t> part = {-1};
  for (int64_t data_rank = 0; data_rank < sampler.options().data_ranks; ++data_rank) {
    for (int64_t i = 0; i < sampler.MicroBatches(clock); ++i) {
      sampler.MicroBatchExamples(clock, data_rank, i, part);
      EXPECT_EQ(sampler.MicroBatchBegin(clock, data_rank, i), joined.size());
      joined.insert(joined.end(), part.begin(), part.end());
    }
  }
  return joined;
}

// The first `clocks` batches, joined.
std::vector<int64_t> Stream(const SamplerOptions& options, int64_t clocks) {
  const auto sampler = Sampler::Create(options).value();
  std::vector<int64_t> stream;
  for (int64_t clock = 0; clock < clocks; ++clock) {
    const std::vector<int64_t> batch = JoinedBatch(*sampler, clock);
    stream.insert(stream.end(), batch.begin(), batch.end());
  }
  return stream;
}

TEST(SamplerTest, EachEpochSeesEachExampleOnce) {
  for (const int64_t batch_size : {1, 7, 10, 64, 100}) {
    const std::vector<int64_t> stream = Stream(Options(1, batch_size, 100), 300 / batch_size + 1);
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> seen(stream.begin() + epoch * 100, stream.begin() + (epoch + 1) * 100);
      std::sort(seen.begin(), seen.end());
      for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(seen[i], i) << "epoch " << epoch;
    }
  }
}

TEST(SamplerTest, TheJoinedBatchIsTheSameForAnyNumberOfDataRanks) {
  const std::vector<int64_t> alone = Stream(Options(1, 24, 100), 20);
  for (const int64_t data_ranks : {2, 3, 5, 7, 24}) {
    EXPECT_EQ(Stream(Options(data_ranks, 24, 100), 20), alone) << data_ranks << " data ranks";
  }
}

TEST(SamplerTest, AnotherBatchSizeGoesOnWhereTheFirstOneWas) {
  const std::vector<int64_t> whole = Stream(Options(1, 1, 40), 100);
  const std::vector<int64_t> first = Stream(Options(2, 4, 40), 5);
  ASSERT_TRUE(std::equal(first.begin(), first.end(), whole.begin()));
  for (const int64_t batch_size : {2, 3, 4, 8, 20, 40}) {
    SamplerOptions options = Options(2, batch_size, 40);
    options.batches = StepBatches({DataPosition{5, 20}}, batch_size);
    options.first_clock = 5;
    const auto sampler = Sampler::Create(options).value();
    std::vector<int64_t> rest;
    for (int64_t clock = 5; clock < 7; ++clock) {
      const std::vector<int64_t> batch = JoinedBatch(*sampler, clock);
      rest.insert(rest.end(), batch.begin(), batch.end());
    }
    ASSERT_EQ(rest.size(), 2 * batch_size);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + 20)) << batch_size;
  }
}

TEST(SamplerTest, OrderDiffersByEpochAndSeed) {
  const std::vector<int64_t> stream = Stream(Options(1, 50, 100), 4);
  EXPECT_FALSE(std::equal(stream.begin(), stream.begin() + 100, stream.begin() + 100));
  EXPECT_NE(Stream(Options(1, 50, 100, 2), 4), stream);
  EXPECT_EQ(Stream(Options(1, 50, 100, 1), 4), stream);
}

TEST(SamplerTest, ABatchOfAllTheDataWorks) {
  std::vector<int64_t> batch = Stream(Options(2, 10, 10), 1);
  std::sort(batch.begin(), batch.end());
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(batch[i], i);
}

TEST(SamplerTest, DistantClocksCostNothingAndStayInRange) {
  const auto sampler = Sampler::Create(Options(3, 1000, 12'345)).value();
  for (const int64_t index : JoinedBatch(*sampler, int64_t{1} << 50)) {
    ASSERT_GE(index, 0);
    ASSERT_LT(index, 12'345);
  }
}

TEST(SamplerTest, FewerDataRanksTakeTheSameBatchInMoreMicroBatches) {
  SamplerOptions options = Options(4, 64, 1000);
  options.micro_batches = 2;
  const auto all = Sampler::Create(options).value();
  EXPECT_EQ(all->MicroBatches(5), 2);
  options.job_data_ranks = 4;
  options.data_ranks = 2;
  const auto half = Sampler::Create(options).value();
  EXPECT_EQ(half->MicroBatches(5), 4);
  EXPECT_EQ(JoinedBatch(*half, 5), JoinedBatch(*all, 5));
}

TEST(SamplerTest, MoreDataRanksTakeTheSameBatchInSmallerShares) {
  SamplerOptions options = Options(2, 64, 1000);
  options.micro_batches = 2;
  const auto job = Sampler::Create(options).value();
  options.job_data_ranks = 2;
  options.data_ranks = 5;
  const auto more = Sampler::Create(options).value();
  EXPECT_EQ(more->MicroBatches(5), 2);
  EXPECT_EQ(JoinedBatch(*more, 5), JoinedBatch(*job, 5));
}

TEST(SamplerTest, AnEpochOfStepsByChangingNumbersOfRanksHasEachExampleOnce) {
  std::map<int64_t, int> seen;
  uint32_t state = 55;
  for (int64_t clock = 0; clock < 250; ++clock) {
    state = state * 1664525 + 1013904223;
    SamplerOptions options = Options(1 + (state >> 16) % 8, 16, 1000);
    options.job_data_ranks = 3;
    options.micro_batches = 2;
    for (const int64_t example : JoinedBatch(*Sampler::Create(options).value(), clock)) {
      ++seen[example];
    }
  }
  EXPECT_EQ(seen.size(), 1000u);
  // 250 batches of 16 are four epochs.
  for (const auto& [example, times] : seen) EXPECT_EQ(times, 4) << example;
}

TEST(SamplerTest, ARankThatNeedsFewerMicroBatchesRunsTheLastOverNoExamples) {
  SamplerOptions options = Options(2, 7, 100);
  options.job_data_ranks = 3;
  const auto sampler = Sampler::Create(options).value();
  ASSERT_EQ(sampler->MicroBatches(4), 2);
  std::vector<int64_t> examples;
  sampler->MicroBatchExamples(4, 0, 0, examples);
  EXPECT_EQ(examples.size(), 3);
  sampler->MicroBatchExamples(4, 0, 1, examples);
  EXPECT_EQ(examples.size(), 0);
  EXPECT_EQ(JoinedBatch(*sampler, 4), JoinedBatch(*Sampler::Create(Options(1, 7, 100)).value(), 4));
}

TEST(SamplerTest, UnequalSharesAreTheSameBatch) {
  SamplerOptions options = Options(4, 64, 1000);
  options.micro_batches = 2;
  const auto equal = Sampler::Create(options).value();
  options.shares.Set(5, {2, 2, 1, 2});
  const auto shared = Sampler::Create(options).value();
  EXPECT_EQ(shared->MicroBatches(4), 2);
  EXPECT_EQ(shared->MicroBatches(5), 3) << "none is larger than before";
  EXPECT_EQ(shared->ShareSize(5, 2), 9);
  for (const int64_t clock : {4, 5, 6}) {
    EXPECT_EQ(JoinedBatch(*shared, clock), JoinedBatch(*equal, clock));
  }
}

// A ramp, whose batches are divided among any number of data ranks and micro-batches.
TEST(SamplerTest, BatchesThatGrowSeeEachExampleOnce) {
  SamplerOptions options = Options(1, 6, 100);
  options.batches.SetSize(3, 14);
  options.batches.SetSize(4, 9);
  options.batches.SetSize(9, 21);
  const std::vector<int64_t> alone = Stream(options, 20);
  ASSERT_GE(alone.size(), 200);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t> seen(alone.begin() + epoch * 100, alone.begin() + (epoch + 1) * 100);
    std::sort(seen.begin(), seen.end());
    for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(seen[i], i) << "epoch " << epoch;
  }
  options.job_data_ranks = 3;
  options.micro_batches = 2;
  for (const int64_t data_ranks : {1, 2, 3}) {
    options.data_ranks = data_ranks;
    EXPECT_EQ(Stream(options, 20), alone) << data_ranks << " data ranks";
  }
}

TEST(SamplerTest, RefusesSizesThatDoNotFitNamingBoth) {
  const auto expect_error = [](const SamplerOptions& options, const std::string& a,
                               const std::string& b) {
    const auto sampler = Sampler::Create(options);
    EXPECT_EQ(sampler.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(sampler.status().message()), AllOf(HasSubstr(a), HasSubstr(b)));
  };
  expect_error(Options(1, 11, 10), "batch_size is 11", "the 10 training examples");
  expect_error(Options(4, 3, 10), "batch_size is 3", "4 data ranks");
  expect_error(Options(0, 3, 10), "0 data ranks", "at least 1");
  expect_error(Options(1, 0, 10), "batch_size is 0", "at least 1");
  expect_error(Options(1, 1, 0), "batch_size is 1", "the 0 training examples");
  SamplerOptions options = Options(3, 10, 100);
  options.micro_batches = 4;
  expect_error(options, "micro_batches is 4", "from 1 to 3");
  options.micro_batches = 0;
  expect_error(options, "micro_batches is 0", "from 1 to 3");
  options.job_data_ranks = 2;
  options.micro_batches = 4;
  expect_error(options, "micro_batches is 4", "from 1 to 3");
}

}  // namespace
}  // namespace muster
