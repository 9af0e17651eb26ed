#include "common/kernels/gemm/row_sums.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

template <typename T>
class RowSumsTest : public testing::Test {};
TYPED_TEST_SUITE(RowSumsTest, KernelTypes);

TYPED_TEST(RowSumsTest, AddsTheSumOfTheRows) {
  using T = TypeParam;
  for (const auto& [rows, cols, gap] : {std::tuple<int64_t, int64_t, int64_t>{0, 5, 0},
                                        {1, 1, 0},
                                        {3, 16, 2},
                                        {33, 65, 1},
                                        {100, 200, 0},
                                        {1000, 131, 13}}) {
    const int64_t stride = cols + gap;
    const auto x = RandomArray<T>(rows * stride, 1);
    const auto before = RandomArray(cols, 2);
    std::vector<double> wanted = Doubles(before);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) wanted[c] += ToFloat(x[r * stride + c]);
    }
    ForEachInstructionSet([&, rows = rows, cols = cols] {
      std::vector<float> sums = before;
      AddRowSums(rows, cols, stride, x.data(), sums.data());
      ExpectNear(sums, wanted, 1e-7 * (rows + 1), 1e-6, "sums");
    });
    ExpectSameBitsOnAnyThreads([&, rows = rows, cols = cols] {
      std::vector<float> sums = before;
      AddRowSums(rows, cols, stride, x.data(), sums.data());
      return sums;
    });
  }
}

TEST(UnscaleTest, MultipliesAndSeesWhatIsNotFinite) {
  for (const int64_t n : {0, 1, 15, 16, 100, 32768, 100003}) {
    const auto x = RandomArray(n, 1, -1e30f, 1e30f);
    ForEachInstructionSet([&] {
      for (const int threads : {1, 2}) {
        SetComputeThreads(threads);
        std::vector<float> y = x;
        EXPECT_TRUE(Unscale(n, 1.0f / 1024, y.data()));
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], x[i] / 1024);
        for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
          if (n == 0) continue;
          for (const float bad : {INFINITY, -INFINITY, NAN}) {
            y[at] = bad;
            EXPECT_FALSE(Unscale(n, 1, y.data())) << n << " with " << bad << " at " << at;
            y[at] = 1;
          }
        }
      }
      SetComputeThreads(1);
    });
  }
}

TEST(SetToZeroTest, WritesSoManyAndNoMore) {
  for (const int64_t n : {0, 1, 1000, 1 << 18, (1 << 19) + 1}) {
    for (const int threads : {1, 2}) {
      SetComputeThreads(threads);
      std::vector<float> x(n + 1, NAN);
      x[n] = 7;
      SetToZero(n, x.data());
      EXPECT_EQ(std::count(x.begin(), x.end() - 1, 0.0f), n);
      EXPECT_EQ(x[n], 7);
    }
  }
  SetComputeThreads(1);
}

TEST(ConvertTest, ThereAndBackWithStrides) {
  const int64_t rows = 300, cols = 211, stride = 240;
  const auto x = RandomArray(rows * stride, 1);
  for (const int threads : {1, 2}) {
    SetComputeThreads(threads);
    std::vector<BFloat16> narrow(rows * cols);
    ConvertRows(rows, cols, x.data(), stride, narrow.data(), cols);
    std::vector<float> wide(rows * stride, -7), dense(rows * cols);
    ConvertRows(rows, cols, narrow.data(), cols, wide.data(), stride);
    Convert(rows * cols, narrow.data(), dense.data());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < stride; ++c) {
        const float wanted = c < cols ? ToFloat(ToBFloat16(x[r * stride + c])) : -7;
        ASSERT_EQ(wide[r * stride + c], wanted);
        if (c >= cols) continue;
        ASSERT_EQ(dense[r * cols + c], wanted);
      }
    }
    std::vector<BFloat16> again(rows * cols);
    Convert(rows * cols, dense.data(), again.data());
    EXPECT_TRUE(again == narrow);
  }
  SetComputeThreads(1);
}

TEST(AllFiniteTest, SeesOneAnywhere) {
  for (const int64_t n : {0, 1, 15, 16, 63, 64, 100, 1000, 65536, 200003}) {
    // Squares of some are past the largest f32, and some are subnormal.
    std::vector<float> x = RandomArray(n, 1, -1.5e38f, 1.5e38f);
    if (n > 2) x[n / 3] = 1e-40f;
    ForEachInstructionSet([&] {
      for (const int threads : {1, 2}) {
        SetComputeThreads(threads);
        EXPECT_TRUE(AllFinite(n, x.data())) << n;
        for (const int64_t at : {int64_t{0}, n / 2, n - 1, n / 64 * 64}) {
          if (at >= n || at < 0) continue;
          const float good = x[at];
          for (const float bad : {INFINITY, -INFINITY, NAN}) {
            x[at] = bad;
            EXPECT_FALSE(AllFinite(n, x.data())) << n << " with " << bad << " at " << at;
          }
          x[at] = good;
        }
      }
      SetComputeThreads(1);
    });
  }
}

}  // namespace
}  // namespace muster
