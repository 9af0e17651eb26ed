#include "common/kernels/elementwise.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/kernels/arrays_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ElementwiseTest, AddBiasAddsItToEachRow) {
  for (int64_t rows : {0, 1, 5}) {
    for (int64_t cols : {0, 1, 3, 16, 37}) {
      const std::vector<float> bias = RandomArray(cols, 1), before = RandomArray(rows * cols, 2);
      std::vector<float> y = before;
      AddBias(rows, cols, bias.data(), y.data());
      for (int64_t i = 0; i < rows * cols; ++i) ASSERT_EQ(y[i], before[i] + bias[i % cols]);
    }
  }
}

TEST(ElementwiseTest, AddBiasGradientAddsColumnSums) {
  for (int64_t rows : {0, 1, 5, 200}) {
    for (int64_t cols : {0, 1, 3, 16, 37}) {
      const std::vector<float> dy = RandomArray(rows * cols, 1), before = RandomArray(cols, 2);
      std::vector<float> gradient = before;
      AddBiasGradient(rows, cols, dy.data(), gradient.data());
      for (int64_t c = 0; c < cols; ++c) {
        double sum = before[c];
        for (int64_t r = 0; r < rows; ++r) sum += dy[r * cols + c];
        ASSERT_NEAR(gradient[c], sum, 1e-5);
      }
    }
  }
}

TEST(ElementwiseTest, ReluCutsBelowZeroAndPassesNan) {
  const std::vector<float> x = {-2, 0, 3, -kInfinity, kInfinity, kNan, 1e-30f, -1e-30f};
  std::vector<float> y(x.size());
  Relu(x.size(), x.data(), y.data());
  EXPECT_TRUE(std::isnan(y[5]));
  y[5] = 0;
  EXPECT_THAT(y, ElementsAre(0, 0, 3, 0, kInfinity, 0, 1e-30f, 0));
}

TEST(ElementwiseTest, ReluBackwardPassesWhereTheOutputIsPositive) {
  const std::vector<float> y = {0, 2, 0, 1, kNan, 1};
  const std::vector<float> dy = {1, 2, -3, -4, 5, kNan};
  std::vector<float> dx(y.size());
  ReluBackward(y.size(), y.data(), dy.data(), dx.data());
  EXPECT_TRUE(std::isnan(dx[5]));
  dx[5] = 0;
  EXPECT_THAT(dx, ElementsAre(0, 2, 0, -4, 5, 0));
}

TEST(ElementwiseTest, ReluWorksInPlace) {
  const std::vector<float> x = RandomArray(1003, 1), dy = RandomArray(1003, 2);
  std::vector<float> y = x, dx = dy;
  Relu(y.size(), y.data(), y.data());
  ReluBackward(y.size(), y.data(), dx.data(), dx.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i], std::max(x[i], 0.0f));
    ASSERT_EQ(dx[i], x[i] > 0 ? dy[i] : 0);
  }
}

TEST(ElementwiseTest, ReluBackwardMatchesFiniteDifferences) {
  constexpr float kStep = 1e-2f;
  for (float x : RandomArray(50, 3)) {
    if (std::fabs(x) < kStep) continue;  // The kink itself has no derivative.
    const float around[2] = {x + kStep, x - kStep};
    float y[2], dx;
    Relu(2, around, y);
    const float one = 1;
    ReluBackward(1, &y[x > 0 ? 0 : 1], &one, &dx);
    EXPECT_NEAR(dx, (y[0] - y[1]) / (2 * kStep), 1e-4);
  }
}

TEST(ElementwiseTest, GatherRowsCopiesTheIndexedRows) {
  const std::vector<float> table = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> index = {2, 0, 2};
  std::vector<float> rows(6);
  GatherRows(3, 2, index.data(), table.data(), rows.data());
  EXPECT_THAT(rows, ElementsAre(5, 6, 1, 2, 5, 6));
  GatherRows(3, 0, index.data(), table.data(), nullptr);
}

// Scatter is gather's transpose: <gather(t), r> = <t, scatter(r)>.
TEST(ElementwiseTest, ScatterAddRowsIsTheTransposeOfGatherRows) {
  constexpr int64_t kTableRows = 11, kCount = 40, kDim = 19;
  std::mt19937 random(4);
  std::vector<int32_t> index(kCount);
  for (int32_t& i : index) i = random() % kTableRows;
  const std::vector<float> table = RandomArray(kTableRows * kDim, 5),
                           rows = RandomArray(kCount * kDim, 6);
  std::vector<float> gathered(kCount * kDim), scattered(kTableRows * kDim);
  GatherRows(kCount, kDim, index.data(), table.data(), gathered.data());
  ScatterAddRows(kCount, kDim, index.data(), rows.data(), scattered.data());
  double left = 0, right = 0;
  for (size_t i = 0; i < rows.size(); ++i) left += double{gathered[i]} * rows[i];
  for (size_t i = 0; i < table.size(); ++i) right += double{table[i]} * scattered[i];
  EXPECT_NEAR(left, right, 1e-4);
}

TEST(ElementwiseTest, ScatterAddRowsAddsRepeatedIndices) {
  std::vector<float> table = {10, 20, 30};
  const std::vector<float> rows = {1, 2, 3};
  const std::vector<int32_t> index = {1, 2, 1};
  ScatterAddRows(3, 1, index.data(), rows.data(), table.data());
  EXPECT_THAT(table, ElementsAre(10, 24, 32));
}

TEST(ElementwiseTest, AddScaledAddsTheMultiple) {
  const std::vector<float> x = RandomArray(101, 7), before = RandomArray(101, 8);
  std::vector<float> y = before;
  AddScaled(101, -0.5f, x.data(), y.data());
  for (int i = 0; i < 101; ++i) ASSERT_EQ(y[i], before[i] + -0.5f * x[i]);
}

TEST(ElementwiseTest, AddArraysAddsTwo) {
  for (const int64_t n : {0, 1, 15, 16, 101}) {
    const std::vector<float> x = RandomArray(n, 7), y = RandomArray(n, 8);
    std::vector<float> sum(n + 1, kNan);
    sum[n] = 5;
    AddArrays(n, x.data(), y.data(), sum.data());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(sum[i], x[i] + y[i]);
    EXPECT_EQ(sum[n], 5);
  }
}

TEST(ElementwiseTest, SquaredSumIsAccurateAtAnyLengthAndSize) {
  for (int64_t n : {0, 1, 15, 16, 17, 100000}) {
    const std::vector<float> x = RandomArray(n, 9);
    long double sum = 0;
    for (float value : x) sum += static_cast<long double>(value) * value;
    EXPECT_NEAR(SquaredSum(n, x.data()), static_cast<double>(sum), 1e-13 * n);
  }
  // Squares that f32 cannot hold.
  const std::vector<float> large(20, 1e30f);
  EXPECT_NEAR(SquaredSum(20, large.data()) / 2e61, 1, 1e-6);
  const std::vector<float> bad = {1, kNan, 2};
  EXPECT_TRUE(std::isnan(SquaredSum(3, bad.data())));
}

}  // namespace
}  // namespace muster
