#include <vector>

#include "common/tables/block_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

std::unique_ptr<const Optimizer> MakeMuon(float average_decay = 0) {
  v1::OptimizerSpec spec;
  spec.set_name("muon");
  spec.set_learning_rate(0.5);
  spec.set_weight_decay(0.1f);
  spec.set_average_decay(average_decay);
  return CreateOptimizer(spec, Granularity::kElements).value();
}

// Two steps of a matrix, computed in f64 by PyTorch 1.13 as published:
//
//   m = 0.95 * m + g;  X = g + 0.95 * m
//   if X.size(0) > X.size(1): X = X.T
//   X = X / (X.norm() + 1e-7)
//   five times: A = X @ X.T;  X = 3.4445 * X + (-4.7750 * A + 2.0315 * A @ A) @ X
//   if it was turned: X = X.T
//   w = w - 0.5 * (0.2 * max(w.shape) ** 0.5 * X + 0.1 * w)
struct TwoSteps {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> weights;
  std::vector<std::vector<float>> gradients;
  std::vector<float> stepped;
  std::vector<float> momentum;
};

std::vector<TwoSteps> FixtureSteps() {
  return {
      {.rows = 2,
       .columns = 4,
       .weights = {-0.9655399f, -2.261066f, 1.433873f, -0.5136817f, -0.09381933f, -1.776734f,
                   -0.3071112f, -0.534655f},
       .gradients = {{0.4427385f, -0.3382691f, -0.6819433f, 1.31796f, -0.1772504f, -0.8313519f,
                      -0.1766307f, -0.8320805f},
                     {-0.88222f, -0.1828141f, -1.683262f, -0.5371184f, 0.2680192f, -0.6321165f,
                      1.917699f, -1.619418f}},
       .stepped = {-0.8475617f, -1.907003f, 1.525452f, -0.519871f, -0.04885526f, -1.408181f,
                   -0.2829394f, -0.2556597f},
       .momentum = {-0.4616185f, -0.5041697f, -2.331108f, 0.7149438f, 0.09963131f, -1.421901f,
                    1.7499f, -2.409894f}},
      {.rows = 4,
       .columns = 3,
       .weights = {1.248984f, -1.764105f, -0.7817205f, -0.7333751f, -0.4873028f, -0.2428877f,
                   -1.195132f, 0.3592926f, -0.1936694f, 0.7577685f, -0.05042521f, 0.0945879f},
       .gradients = {{0.1737305f, 2.501822f, 0.9120611f, -0.8043379f, 0.5144855f, -0.2919792f,
                      0.4444893f, -0.8503732f, 1.387835f, -0.1420329f, 0.7238559f, -2.016078f},
                     {-0.3686547f, 0.9904411f, -1.339177f, 0.6800885f, -0.8457653f, -0.7534204f,
                      -0.3943641f, 2.457983f, -0.3668897f, -1.0356f, -0.1690808f, 0.7954281f}},
       .stepped = {1.104232f, -1.880002f, -0.6612564f, -0.5671606f, -0.4345418f, -0.06081549f,
                   -1.141822f, 0.2679873f, -0.3498226f, 0.8795152f, -0.07168881f, 0.2700031f},
       .momentum = {-0.2036108f, 3.367172f, -0.4727189f, -0.08403244f, -0.357004f, -1.030801f,
                    0.02790072f, 1.650129f, 0.951554f, -1.170531f, 0.5185822f, -1.119846f}},
      {.rows = 3,
       .columns = 3,
       .weights = {0.8467661f, 0.5473387f, 0.1672036f, -0.4683024f, 1.688219f, -1.758839f,
                   1.081711f, 1.160001f, -0.742378f},
       .gradients = {{-1.239872f, -0.5125925f, 0.9773565f, -1.074887f, 2.309113f, -1.096928f,
                      -0.4412589f, 0.8173105f, 0.400597f},
                     {3.296773f, 0.7132906f, 1.650209f, -0.7560504f, -0.5282404f, 0.4554176f,
                      -0.6904746f, 0.5162331f, -0.3687847f}},
       .stepped = {0.8011092f, 0.4909025f, 0.004424462f, -0.2193117f, 1.376177f, -1.615103f,
                   0.9655921f, 0.765908f, -0.751319f},
       .momentum = {2.118894f, 0.2263278f, 2.578697f, -1.777193f, 1.665417f, -0.5866639f,
                    -1.109671f, 1.292678f, 0.01178242f}},
  };
}

DenseLayout::Block MatrixBlock(int64_t rows, int64_t columns) {
  return {.end = static_cast<uint64_t>(rows * columns), .rows = rows, .columns = columns};
}

TEST(MuonStepTest, FollowsThePublishedFormula) {
  const auto optimizer = MakeMuon();
  for (const TwoSteps& fixture : FixtureSteps()) {
    const size_t n = fixture.weights.size();
    std::vector<float> weights = fixture.weights, state(optimizer->state_floats(n));
    uint64_t t = 0;
    for (std::vector<float> gradient : fixture.gradients) {
      for (float& g : gradient) g *= 4;
      StepBlock(MatrixBlock(fixture.rows, fixture.columns), *optimizer,
                {.learning_rate = 0.5, .step = ++t, .gradient_scale = 0.25f}, gradient,
                absl::MakeSpan(weights), absl::MakeSpan(state));
    }
    EXPECT_THAT(weights, Pointwise(FloatNear(1e-5), fixture.stepped)) << n;
    state.resize(n);
    EXPECT_THAT(state, Pointwise(FloatNear(1e-6), fixture.momentum)) << n;
  }
}

// Those who have parts of a matrix bring the direction together, and come to the same bits.
TEST(MuonStepTest, PartsMoveAsTheWholeDoes) {
  const auto optimizer = MakeMuon(/*average_decay=*/0.5);
  const TwoSteps fixture = FixtureSteps()[1];
  const size_t n = fixture.weights.size();
  const OptimizerStep step = {.learning_rate = 0.5, .clip_value = 1};
  const DenseLayout::Block whole = MatrixBlock(fixture.rows, fixture.columns);
  std::vector<float> weights = fixture.weights, state(optimizer->state_floats(n));
  optimizer->InitState(weights, absl::MakeSpan(state));
  StepBlock(whole, *optimizer, step, fixture.gradients[0], absl::MakeSpan(weights),
            absl::MakeSpan(state));

  const size_t cut = 5;
  for (const bool second : {false, true}) {
    const size_t begin = second ? cut : 0, size = second ? n - cut : cut;
    DenseLayout::Block part = whole;
    part.begin = begin;
    part.end = begin + size;
    std::vector<float> own(fixture.weights.begin() + begin, fixture.weights.begin() + begin + size);
    std::vector<float> own_state(optimizer->state_floats(size));
    optimizer->InitState(own, absl::MakeSpan(own_state));
    const auto gradient = absl::MakeConstSpan(fixture.gradients[0]).subspan(begin, size);
    DirectBlock(part, *optimizer, step, gradient, absl::MakeSpan(own_state));
    // The whole matrix was moved by this.
    std::copy_n(state.begin() + n + begin, size, own_state.begin() + size);
    StepBlock(part, *optimizer, step, gradient, absl::MakeSpan(own), absl::MakeSpan(own_state));
    for (size_t i = 0; i < size; ++i) {
      EXPECT_EQ(own[i], weights[begin + i]);
      EXPECT_EQ(own_state[i], state[begin + i]) << "momentum";
      EXPECT_EQ(own_state[2 * size + i], state[2 * n + begin + i]) << "average";
    }
  }
}

TEST(MuonStepTest, WhatIsNoMatrixMovesAsByAdamW) {
  const auto optimizer = MakeMuon();
  v1::OptimizerSpec spec;
  spec.set_name("adamw");
  spec.set_learning_rate(0.5);
  spec.set_weight_decay(0.1f);
  const auto adamw = CreateOptimizer(spec, Granularity::kElements).value();
  std::vector<float> weights = {1, -2, 3}, other = weights, state(6), other_state(6);
  const std::vector<float> gradient = {0.5f, 0.25f, -1};
  const DenseLayout::Block block = {.end = 3};
  StepBlock(block, *optimizer, {.learning_rate = 0.5}, gradient, absl::MakeSpan(weights),
            absl::MakeSpan(state));
  StepBlock(block, *adamw, {.learning_rate = 0.5}, gradient, absl::MakeSpan(other),
            absl::MakeSpan(other_state));
  EXPECT_EQ(weights, other);
  EXPECT_EQ(state, other_state);
}

TEST(MuonStepTest, GroupsHaveTheirRateAndDecay) {
  const auto optimizer = MakeMuon();
  const TwoSteps fixture = FixtureSteps()[0];
  DenseLayout::Block block = MatrixBlock(fixture.rows, fixture.columns);
  const auto stepped = [&] {
    std::vector<float> weights = fixture.weights, state(2 * weights.size());
    StepBlock(block, *optimizer, {.learning_rate = 0.5}, fixture.gradients[0],
              absl::MakeSpan(weights), absl::MakeSpan(state));
    return weights;
  };
  block.weight_decay = false;
  const std::vector<float> plain = stepped();
  block.own_weight_decay = 0.25f;
  block.rate = 2;
  const std::vector<float> grouped = stepped();
  for (size_t i = 0; i < plain.size(); ++i) {
    const float w = fixture.weights[i];
    EXPECT_NEAR(grouped[i], w + 2 * (plain[i] - w) - 2 * 0.5f * 0.25f * w, 1e-5);
  }
}

}  // namespace
}  // namespace muster
