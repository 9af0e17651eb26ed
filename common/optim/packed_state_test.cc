#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/philox.h"
#include "common/optim/optimizer_test_lib.h"
#include "common/optim/packed_pairs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kAdamW[] = "name: 'adamw' learning_rate: 1 weight_decay: 0 beta1: 0.9 beta2: 0.999";

std::string Packed(const std::string& spec) { return spec + " state_type: BF16"; }

std::vector<float> Half(int half, absl::Span<const float> pairs) {
  std::vector<float> values(pairs.size());
  PairHalf(half, pairs, absl::MakeSpan(values));
  return values;
}

// Some weights with their state, and steps on gradients that depend on the element and the step.
struct Training {
  Training(const std::string& spec, size_t n)
      : optimizer(MakeOptimizer(spec)), weights(n), state(optimizer->state_floats(n)) {
    const Philox random(1, "test", "weights");
    for (size_t i = 0; i < n; ++i) weights[i] = random.Normal(i);
    optimizer->InitState(weights, absl::MakeSpan(state));
  }

  void Step(uint64_t step) {
    const Philox random(2, "test", "gradients");
    std::vector<float> gradient(weights.size());
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = 1 + 0.1f * random.Normal(i, step);
    optimizer->Apply({.learning_rate = 1e-3f, .step = step}, gradient, absl::MakeSpan(weights),
                     absl::MakeSpan(state));
  }

  std::unique_ptr<const Optimizer> optimizer;
  std::vector<float> weights, state;
};

double Mean(absl::Span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(PackedStateTest, HasTheArraysOfItsOptimizerInHalfTheMemory) {
  const auto optimizer = MakeOptimizer(Packed(kAdamW));
  EXPECT_THAT(optimizer->state_names(), ElementsAre("m", "v"));
  EXPECT_TRUE(optimizer->packs_pairs());
  EXPECT_EQ(optimizer->state_floats(1000), 1000);
  EXPECT_EQ(MakeOptimizer(Packed(kAdamW) + " average_decay: 0.5")->state_floats(1000), 2000);
  EXPECT_FALSE(MakeOptimizer(kAdamW)->packs_pairs());
}

TEST(PackedStateTest, PairsAreTwoArrays) {
  std::vector<float> pairs(4);
  SetPairHalf(0, {1.0f, -2.5f, 0.0f, 3e38f}, absl::MakeSpan(pairs));
  SetPairHalf(1, {-4.0f, 0.0f, 0.5f, 1e-30f}, absl::MakeSpan(pairs));
  EXPECT_THAT(Half(0, pairs), ElementsAre(1, -2.5f, 0, testing::FloatNear(3e38f, 1e36f)));
  EXPECT_THAT(Half(1, pairs), ElementsAre(-4, 0, 0.5f, testing::FloatNear(1e-30f, 4e-33f)));
}

// Rounding to the nearest would leave v where a step changes it by less than half of its last
// digit, as is soon so for β₂ = 0.999: at 400 steps of v = 1 - β₂ᵗ it would be far from 0.33.
TEST(PackedStateTest, SmallChangesAddUp) {
  Training exact(kAdamW, 5000), packed(Packed(kAdamW), 5000);
  for (uint64_t step = 1; step <= 400; ++step) {
    exact.Step(step);
    packed.Step(step);
  }
  const absl::Span<const float> state = exact.state;
  EXPECT_NEAR(Mean(Half(0, packed.state)), Mean(state.first(5000)), 1e-3);
  EXPECT_NEAR(Mean(Half(1, packed.state)), Mean(state.subspan(5000)), 1e-3);
  EXPECT_NEAR(Mean(packed.weights), Mean(exact.weights), 2e-3);
}

TEST(PackedStateTest, DivisionIntoCallsChangesNoBitAndARepeatedStepNone) {
  Training whole(Packed(kAdamW), 3000), again(Packed(kAdamW), 3000);
  std::vector<float> gradient(3000, 0.25f);
  for (uint64_t step = 1; step <= 3; ++step) {
    const OptimizerStep scalars = {.learning_rate = 0.125f, .step = step};
    whole.optimizer->Apply(scalars, gradient, absl::MakeSpan(whole.weights),
                           absl::MakeSpan(whole.state));
    for (const auto& [begin, end] : {std::pair(0, 7), std::pair(7, 2000), std::pair(2000, 3000)}) {
      again.optimizer->Apply(scalars, absl::MakeConstSpan(gradient).subspan(begin, end - begin),
                             absl::MakeSpan(again.weights).subspan(begin, end - begin),
                             absl::MakeSpan(again.state).subspan(begin, end - begin));
    }
  }
  EXPECT_EQ(again.weights, whole.weights);
  EXPECT_EQ(Half(0, again.state), Half(0, whole.state));
  EXPECT_EQ(Half(1, again.state), Half(1, whole.state));
}

// What a step rounds differs from step to step, though the numbers are the same.
TEST(PackedStateTest, NumbersAreDrawnAnewInEachStep) {
  const auto optimizer =
      MakeOptimizer("name: 'adam' learning_rate: 1 beta1: 0 beta2: 0 state_type: BF16");
  const std::vector<float> gradient(4000, 1 + 1.0f / 512);
  std::vector<std::vector<float>> rounded;
  for (uint64_t step = 1; step <= 2; ++step) {
    Training start(kAdamW, 4000);
    std::vector<float> state(4000);
    optimizer->Apply({.learning_rate = 0, .step = step}, gradient, absl::MakeSpan(start.weights),
                     absl::MakeSpan(state));
    rounded.push_back(Half(0, state));
    // A quarter of the way between neighbours.
    const auto up = std::count(rounded.back().begin(), rounded.back().end(), 1 + 1.0f / 128);
    EXPECT_NEAR(static_cast<double>(up), 1000, 120);
    EXPECT_EQ(std::count(rounded.back().begin(), rounded.back().end(), 1), 4000 - up);
  }
  EXPECT_NE(rounded[0], rounded[1]);
}

TEST(PackedStateTest, NanReachesItsElementAlone) {
  Training training(Packed(kAdamW), 3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  training.optimizer->Apply({.learning_rate = 1}, {1.0f, nan, 3e38f},
                            absl::MakeSpan(training.weights), absl::MakeSpan(training.state));
  EXPECT_TRUE(std::isfinite(training.weights[0]));
  EXPECT_TRUE(std::isnan(training.weights[1]));
  EXPECT_TRUE(std::isnan(Half(0, training.state)[1]));
  EXPECT_TRUE(std::isfinite(Half(0, training.state)[2]));
}

TEST(PackedStateTest, RowsAreNotPacked) {
  EXPECT_FALSE(MakeOptimizer(Packed(kAdamW), Granularity::kRow)->packs_pairs());
}

TEST(PackedStateTest, OptimizersOfOtherArraysAreRefused) {
  for (const char* name : {"momentum", "lion", "ftrl", "sgd"}) {
    const absl::Status status =
        OptimizerError(std::string("name: '") + name + "' learning_rate: 1 state_type: BF16");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("state_type is BF16")) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("adamw")) << name;
  }
}

}  // namespace
}  // namespace muster
