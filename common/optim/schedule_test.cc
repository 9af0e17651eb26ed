#include "common/optim/schedule.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

v1::ScheduleSpec Parse(const std::string& text) {
  v1::ScheduleSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

struct Rates {
  std::string spec;
  // At clocks 0, 1, 2, …, of a base rate of 8 and a job of 10 steps.
  std::vector<float> expected;
};

class ScheduleTest : public testing::TestWithParam<Rates> {};

TEST_P(ScheduleTest, GivesTheRatesComputedByHand) {
  const v1::ScheduleSpec spec = Parse(GetParam().spec);
  ASSERT_EQ(ValidateSchedule(spec), absl::OkStatus());
  std::vector<float> rates;
  for (uint64_t clock = 0; clock < GetParam().expected.size(); ++clock) {
    rates.push_back(LearningRate(spec, 8, clock, 10));
  }
  EXPECT_THAT(rates, Pointwise(FloatNear(1e-5), GetParam().expected)) << GetParam().spec;
}

INSTANTIATE_TEST_SUITE_P(
    All, ScheduleTest,
    testing::Values(
        Rates{"", {8, 8, 8}}, Rates{"name: 'constant'", {8, 8, 8}},
        Rates{"warmup_steps: 4", {2, 4, 6, 8, 8, 8}},
        Rates{"name: 'step' period: 2 factor: 0.5", {8, 8, 4, 4, 2, 2, 1}},
        Rates{"name: 'step' period: 2 factor: 0.5 warmup_steps: 2", {4, 8, 8, 8, 4, 4, 2}},
        Rates{"name: 'linear'", {8, 7.2f, 6.4f, 5.6f, 4.8f, 4, 3.2f, 2.4f, 1.6f, 0.8f, 0, 0}},
        Rates{"name: 'linear' warmup_steps: 2 final_fraction: 0.5 total_steps: 6",
              {4, 8, 8, 7, 6, 5, 4, 4}},
        Rates{"name: 'cosine' total_steps: 4", {8, 6.828427f, 4, 1.171573f, 0, 0}},
        Rates{"name: 'cosine' warmup_steps: 2 final_fraction: 0.25 total_steps: 4",
              {4, 8, 8, 5, 2, 2}},
        Rates{"name: 'cosine' warmup_steps: 8", {1, 2, 3, 4, 5, 6, 7, 8, 8, 4, 0}},
        Rates{"name: 'inverse_square_root'", {8, 5.656854f, 4.618802f, 4}},
        Rates{"name: 'inverse_square_root' warmup_steps: 4",
              {2, 4, 6, 8, 7.155418f, 6.531973f, 6.047432f, 5.656854f}},
        Rates{"name: 'warmup_stable_decay' warmup_steps: 2 decay_steps: 4",
              {4, 8, 8, 8, 8, 8, 8, 6, 4, 2, 0, 0}},
        Rates{"name: 'warmup_stable_decay' decay_steps: 2 final_fraction: 0.5 total_steps: 4 "
              "decay_shape: 'linear'",
              {8, 8, 8, 6, 4, 4}},
        Rates{"name: 'warmup_stable_decay' decay_steps: 4 total_steps: 5 decay_shape: 'cosine'",
              {8, 8, 6.828427f, 4, 1.171573f, 0, 0}},
        Rates{"name: 'warmup_stable_decay' decay_steps: 4 total_steps: 5 final_fraction: 0.25 "
              "decay_shape: 'square_root'",
              {8, 8, 5, 3.757359f, 2.803848f, 2, 2}},
        Rates{"name: 'piecewise_constant' points { step: 2 factor: 0.5 } "
              "points { step: 3 factor: 2 } points { step: 5 factor: 0 }",
              {8, 8, 4, 16, 16, 0, 0}},
        Rates{"name: 'piecewise_constant' warmup_steps: 2 points { step: 2 factor: 0.5 }",
              {4, 8, 4, 4}},
        Rates{"name: 'piecewise_linear' points { factor: 0 } points { step: 4 factor: 1 } "
              "points { step: 6 factor: 0.25 }",
              {0, 2, 4, 6, 8, 5, 2, 2}},
        Rates{"name: 'piecewise_linear' warmup_steps: 2 points { step: 4 factor: 0.5 }",
              {4, 8, 8, 6, 4, 4}}));

// The decay then begins with the warm-up's end, or with the job.
TEST(ScheduleTest, DecayLongerThanTheJobStillEndsWithIt) {
  const v1::ScheduleSpec spec = Parse("name: 'warmup_stable_decay' decay_steps: 20");
  EXPECT_FLOAT_EQ(LearningRate(spec, 8, 0, 10), 8);
  EXPECT_FLOAT_EQ(LearningRate(spec, 8, 5, 10), 4);
  EXPECT_FLOAT_EQ(LearningRate(spec, 8, 10, 10), 0);
  const v1::ScheduleSpec warm = Parse("name: 'warmup_stable_decay' decay_steps: 9 warmup_steps: 6");
  EXPECT_FLOAT_EQ(LearningRate(warm, 8, 6, 10), 8);
  EXPECT_FLOAT_EQ(LearningRate(warm, 8, 8, 10), 4);
}

TEST(ScheduleTest, WarmUpLongerThanTheJobOnlyWarmsUp) {
  const v1::ScheduleSpec spec = Parse("name: 'linear' warmup_steps: 20");
  EXPECT_FLOAT_EQ(LearningRate(spec, 8, 9, 10), 4);
  EXPECT_FLOAT_EQ(LearningRate(spec, 8, 20, 10), 0);
}

TEST(ScheduleTest, HugeClocksAreFine) {
  const uint64_t clock = uint64_t{1} << 62;
  EXPECT_EQ(LearningRate(Parse("name: 'step' period: 1 factor: 0.5"), 8, clock, 10), 0);
  EXPECT_EQ(LearningRate(Parse("name: 'cosine' final_fraction: 0.5"), 8, clock, 10), 4);
  EXPECT_GT(LearningRate(Parse("name: 'inverse_square_root'"), 8, clock, 10), 0);
}

struct BadSchedule {
  std::string spec;
  std::vector<std::string> message;
};

class ScheduleErrorTest : public testing::TestWithParam<BadSchedule> {};

TEST_P(ScheduleErrorTest, NamesFieldValueAndRemedy) {
  const absl::Status status = ValidateSchedule(Parse(GetParam().spec));
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << GetParam().spec;
  for (const std::string& part : GetParam().message) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ScheduleErrorTest,
    testing::Values(
        BadSchedule{"name: 'cosin'", {"name is \"cosin\"", "cosine"}},
        BadSchedule{"period: 3", {"period is 3", "constant does not use it"}},
        BadSchedule{"name: 'cosine' factor: 0.5", {"factor is 0.5", "take step"}},
        BadSchedule{"name: 'step' period: 2 factor: 0.5 final_fraction: 0.1",
                    {"final_fraction is 0.1"}},
        BadSchedule{"name: 'inverse_square_root' total_steps: 5", {"total_steps is 5", "linear"}},
        BadSchedule{"name: 'step' factor: 0.5", {"period is 0"}},
        BadSchedule{"name: 'step' period: 2", {"factor is 0", "(0, 1]"}},
        BadSchedule{"name: 'step' period: 2 factor: 1.5", {"factor is 1.5"}},
        BadSchedule{"name: 'step' period: 2 factor: nan", {"factor is nan"}},
        BadSchedule{"name: 'linear' final_fraction: -0.5", {"final_fraction is -0.5", "[0, 1]"}},
        BadSchedule{"name: 'cosine' final_fraction: nan", {"final_fraction is nan"}},
        BadSchedule{"name: 'linear' warmup_steps: 5 total_steps: 5",
                    {"total_steps is 5", "warmup_steps, 5"}},
        BadSchedule{"name: 'cosine' decay_steps: 3",
                    {"decay_steps is 3", "take warmup_stable_decay"}},
        BadSchedule{"name: 'linear' decay_shape: 'cosine'", {"decay_shape is cosine"}},
        BadSchedule{"points { step: 3 factor: 1 }", {"points is 1 points", "piecewise_linear"}},
        BadSchedule{"name: 'warmup_stable_decay'", {"decay_steps is 0", "needs the number"}},
        BadSchedule{"name: 'warmup_stable_decay' decay_steps: 1 decay_shape: 'sqrt'",
                    {"decay_shape is \"sqrt\"", "square_root"}},
        BadSchedule{"name: 'warmup_stable_decay' decay_steps: 6 warmup_steps: 5 total_steps: 10",
                    {"decay_steps is 6", "leaves 5 steps"}},
        BadSchedule{"name: 'warmup_stable_decay' decay_steps: 6 final_fraction: 2",
                    {"final_fraction is 2"}},
        BadSchedule{"name: 'piecewise_linear'", {"points is empty", "piecewise_linear"}},
        BadSchedule{"name: 'piecewise_linear' warmup_steps: 5 points { step: 4 factor: 1 }",
                    {"points[0].step is 4", "at least 5, which is warmup_steps"}},
        BadSchedule{"name: 'piecewise_constant' points { step: 4 } points { step: 4 }",
                    {"points[1].step is 4", "at least 5", "after the one before"}},
        BadSchedule{"name: 'piecewise_constant' points { factor: -1 }",
                    {"points[0].factor is -1", "at least 0"}},
        BadSchedule{"name: 'piecewise_constant' points { factor: inf }", {"factor is inf"}},
        BadSchedule{"name: 'cosine_restarts'", {"period is 0", "until the first restart"}},
        BadSchedule{"name: 'cosine_restarts' period: 3 period_growth: 0.5",
                    {"period_growth is 0.5", "at least 1"}},
        BadSchedule{"name: 'cosine_restarts' period: 3 final_fraction: 2", {"final_fraction is 2"}},
        BadSchedule{"name: 'cosine_restarts' period: 3 total_steps: 2", {"total_steps is 2"}},
        BadSchedule{"name: 'cosine' period_growth: 2",
                    {"period_growth is 2", "take cosine_restarts"}},
        BadSchedule{"plateau { factor: 1 }", {"plateau.factor is 1", "between 0 and 1"}},
        BadSchedule{"plateau { threshold: 1 }", {"plateau.threshold is 1", "[0, 1)"}},
        BadSchedule{"plateau { min_factor: -1 }", {"plateau.min_factor is -1"}},
        BadSchedule{"scaling: 'cubic'", {"scaling is \"cubic\"", "square_root"}},
        BadSchedule{"scaling: 'linear'", {"base_batch_size is 0", "linear"}},
        BadSchedule{"base_batch_size: 64", {"base_batch_size is 64", "scaling is none"}}));

// PyTorch 1.13 made these: what torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer,
// T_0=5, T_mult=2, eta_min=0.1) makes of a rate of 1.
TEST(LearningRateTest, RestartsAsPyTorchDoes) {
  const std::vector<float> expected = {1,         0.9140576, 0.6890576, 0.4109424, 0.1859424,
                                       1,         0.9779754, 0.9140576, 0.8145034, 0.6890576,
                                       0.5500000, 0.4109424, 0.2854966, 0.1859424, 0.1220246,
                                       1,         0.9944598, 0.9779754, 0.9509529, 0.9140576};
  for (const uint64_t warmup : {0, 3}) {
    v1::ScheduleSpec spec =
        Parse("name: 'cosine_restarts' period: 5 period_growth: 2 final_fraction: 0.1");
    spec.set_warmup_steps(warmup);
    ASSERT_EQ(ValidateSchedule(spec), absl::OkStatus());
    for (size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(LearningRate(spec, 1, warmup + step, 1000), expected[step], 1e-6) << step;
    }
    for (uint64_t step = 0; step < warmup; ++step) {
      EXPECT_FLOAT_EQ(LearningRate(spec, 1, step, 1000), (step + 1) / 3.0f);
    }
  }
}

TEST(LearningRateTest, RestartsAfterPeriodsThatNeedNotGrow) {
  const v1::ScheduleSpec spec = Parse("name: 'cosine_restarts' period: 10");
  for (uint64_t step = 0; step < 10; ++step) {
    EXPECT_EQ(LearningRate(spec, 1, 70 + step, 1000), LearningRate(spec, 1, step, 1000));
  }
  // Periods of 4, 6 and 9 steps.
  const v1::ScheduleSpec growing = Parse("name: 'cosine_restarts' period: 4 period_growth: 1.5");
  std::vector<uint64_t> restarts;
  for (uint64_t step = 0; step < 20; ++step) {
    if (LearningRate(growing, 1, step, 1000) == 1) restarts.push_back(step);
  }
  EXPECT_EQ(restarts, (std::vector<uint64_t>{0, 4, 10, 19}));
  EXPECT_GE(LearningRate(growing, 1, uint64_t{1} << 62, 1000), 0);
}

TEST(LearningRateTest, WhatWasDecidedMultipliesTheSchedule) {
  const v1::ScheduleSpec spec = Parse("name: 'linear' warmup_steps: 4");
  for (const uint64_t clock : {1, 3, 4, 9}) {
    const float scheduled = LearningRate(spec, 0.5, clock, 12);
    EXPECT_EQ(LearningRate(spec, 0.5, clock, 12, 1), scheduled);
    EXPECT_EQ(LearningRate(spec, 0.5, clock, 12, 0.25), scheduled / 4);
  }
}

TEST(ScaledLearningRateTest, FollowsTheBatch) {
  const auto scaled = [](const std::string& text, uint32_t batch_size) {
    const v1::ScheduleSpec spec = Parse(text);
    EXPECT_EQ(ValidateSchedule(spec), absl::OkStatus());
    return ScaledLearningRate(spec, 0.5, batch_size);
  };
  EXPECT_EQ(scaled("", 256), 0.5);
  EXPECT_EQ(scaled("scaling: 'none'", 256), 0.5);
  EXPECT_EQ(scaled("scaling: 'linear' base_batch_size: 64", 256), 2);
  EXPECT_EQ(scaled("scaling: 'linear' base_batch_size: 64", 16), 0.125);
  EXPECT_EQ(scaled("scaling: 'square_root' base_batch_size: 64", 256), 1);
  EXPECT_EQ(scaled("scaling: 'square_root' base_batch_size: 64 warmup_steps: 9", 16), 0.25);
}

}  // namespace
}  // namespace muster
