#include "common/kernels/matmul.h"

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "common/kernels/arrays_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Each;

using Shape = std::tuple<int64_t, int64_t, int64_t>;

class MatmulTest : public testing::TestWithParam<std::tuple<Transpose, Transpose, Shape>> {};

TEST_P(MatmulTest, EqualsItsDefinition) {
  const auto [transpose_a, transpose_b, shape] = GetParam();
  const auto [m, n, k] = shape;
  const std::vector<float> a = RandomArray(m * k, 1), b = RandomArray(k * n, 2),
                           before = RandomArray(m * n, 3);
  const auto at_a = [&, ta = transpose_a == Transpose::kYes, m = m, k = k](int64_t i, int64_t p) {
    return double{ta ? a[p * m + i] : a[i * k + p]};
  };
  const auto at_b = [&, tb = transpose_b == Transpose::kYes, n = n, k = k](int64_t p, int64_t j) {
    return double{tb ? b[j * k + p] : b[p * n + j]};
  };
  for (const Accumulation accumulation : {Accumulation::kWrite, Accumulation::kAdd}) {
    std::vector<float> c = before;
    Matmul(transpose_a, transpose_b, m, n, k, a.data(), b.data(), accumulation, c.data());
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = accumulation == Accumulation::kAdd ? before[i * n + j] : 0;
        for (int64_t p = 0; p < k; ++p) sum += at_a(i, p) * at_b(p, j);
        ASSERT_NEAR(c[i * n + j], sum, 1e-6 * (k + 3)) << i << ", " << j;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MatmulTest,
    testing::Combine(testing::Values(Transpose::kNo, Transpose::kYes),
                     testing::Values(Transpose::kNo, Transpose::kYes),
                     testing::Values(Shape(1, 1, 1), Shape(1, 7, 5), Shape(7, 1, 5), Shape(3, 4, 1),
                                     Shape(16, 16, 16), Shape(33, 65, 129), Shape(100, 10, 300),
                                     Shape(0, 3, 4), Shape(3, 0, 4), Shape(3, 4, 0))));

TEST(MatmulTest, WritesOverWhatWasThere) {
  for (int64_t k : {0, 3}) {
    const std::vector<float> a(2 * k, 1), b(k * 2, 1);
    std::vector<float> c(4, std::numeric_limits<float>::quiet_NaN());
    Matmul(Transpose::kNo, Transpose::kNo, 2, 2, k, a.data(), b.data(), Accumulation::kWrite,
           c.data());
    EXPECT_THAT(c, Each(static_cast<float>(k)));
  }
}

TEST(MatmulTest, NanReachesTheOutput) {
  std::vector<float> a(40 * 50, 1), b(50 * 60, 0), c(40 * 60);
  a[7 * 50 + 3] = std::numeric_limits<float>::quiet_NaN();
  Matmul(Transpose::kNo, Transpose::kNo, 40, 60, 50, a.data(), b.data(), Accumulation::kWrite,
         c.data());
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < 60; ++j) ASSERT_EQ(std::isnan(c[i * 60 + j]), i == 7);
  }
}

// `deterministic` rests on this.
TEST(MatmulTest, SameInputsGiveTheSameBits) {
  const int64_t m = 128, n = 96, k = 784;
  const std::vector<float> a = RandomArray(m * k, 1), b = RandomArray(k * n, 2);
  for (int threads : {1, 2}) {
    SetComputeThreads(threads);
    std::vector<float> first(m * n), again(m * n);
    Matmul(Transpose::kNo, Transpose::kNo, m, n, k, a.data(), b.data(), Accumulation::kWrite,
           first.data());
    for (int i = 0; i < 5; ++i) {
      Matmul(Transpose::kNo, Transpose::kNo, m, n, k, a.data(), b.data(), Accumulation::kWrite,
             again.data());
      ASSERT_EQ(again, first) << threads << " threads";
    }
  }
  SetComputeThreads(1);
}

TEST(MatmulTest, ThreadsAreTheCallingThreadsOwn) {
  EXPECT_EQ(ComputeThreads(), 1);
  SetComputeThreads(3);
  int other = 0;
  std::thread([&] { other = ComputeThreads(); }).join();
  EXPECT_EQ(other, 1);
  EXPECT_EQ(ComputeThreads(), 3);
  SetComputeThreads(1);
}

}  // namespace
}  // namespace muster
