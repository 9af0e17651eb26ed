#include "common/kernels/gemm/gemm.h"

#include <array>
#include <cmath>
#include <limits>
#include <thread>
#include <tuple>
#include <vector>

#include "common/kernels/gemm/gemm_primitive.h"
#include "common/kernels/transformer/kernel_test_lib.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

struct Case {
  int64_t m, n, k;
  // Elements between stored rows beyond their length.
  int64_t gap;
};

const Case kCases[] = {{1, 1, 1, 0},     {1, 7, 5, 0},     {7, 1, 5, 3},      {3, 4, 1, 1},
                       {16, 16, 16, 0},  {33, 65, 129, 0}, {100, 10, 300, 7}, {65, 48, 64, 16},
                       {0, 3, 4, 0},     {3, 0, 4, 0},     {3, 4, 0, 0},      {5, 9, 4200, 2},
                       {9, 70, 4099, 0}, {72, 24, 63, 0},  {47, 66, 63, 2}};

// A matrix of `rows` stored rows, with NaN between them, that nobody may read.
template <typename T>
std::vector<T> Stored(int64_t rows, int64_t cols, int64_t gap, uint32_t seed) {
  std::vector<T> values = RandomArray<T>(rows * (cols + gap), seed);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t g = 0; g < gap; ++g) {
      values[r * (cols + gap) + cols + g] = Rounded<T>(std::numeric_limits<double>::quiet_NaN());
    }
  }
  return values;
}

template <typename In, typename Out>
void ExpectDefinition(const Case& c, Transpose ta, Transpose tb, Accumulation accumulation,
                      bool with_bias) {
  const bool a_t = ta == Transpose::kYes, b_t = tb == Transpose::kYes;
  const int64_t a_stride = (a_t ? c.m : c.k) + c.gap, b_stride = b_t ? c.k : c.n;
  const int64_t c_stride = c.n + c.gap;
  const auto a = Stored<In>(a_t ? c.k : c.m, a_t ? c.m : c.k, c.gap, 1);
  const auto b = Stored<In>(b_t ? c.n : c.k, b_stride, /*gap=*/0, 2);
  const auto bias = RandomArray(c.n, 3);
  const auto before = RandomArray<Out>(c.m * c_stride, 4);
  std::vector<Out> got = before;
  Gemm(c.m, c.n, c.k, a.data(), b.data(), got.data(),
       {.transpose_a = ta,
        .transpose_b = tb,
        .a_stride = c.gap == 0 ? 0 : a_stride,
        .c_stride = c.gap == 0 ? 0 : c_stride,
        .accumulation = accumulation,
        .bias = with_bias ? bias.data() : nullptr});
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c_stride; ++j) {
      const Out& value = got[i * c_stride + j];
      const Out& old = before[i * c_stride + j];
      if (j >= c.n) {
        ASSERT_EQ(ToFloat(value), ToFloat(old)) << "wrote between rows";
        continue;
      }
      double sum = with_bias ? bias[j] : 0;
      if (accumulation == Accumulation::kAdd) sum += ToFloat(old);
      for (int64_t p = 0; p < c.k; ++p) {
        sum += static_cast<double>(ToFloat(a_t ? a[p * a_stride + i] : a[i * a_stride + p])) *
               ToFloat(b_t ? b[j * b_stride + p] : b[p * b_stride + j]);
      }
      ASSERT_NEAR(ToFloat(value), sum, 2e-7 * (c.k + 3) + kRounding<Out> * std::abs(sum))
          << c.m << " x " << c.n << " x " << c.k << " at " << i << ", " << j;
    }
  }
}

TEST(GemmTest, EqualsItsDefinition) {
  for (const int threads : {1, 2}) {
    SetComputeThreads(threads);
    for (const Case& c : kCases) {
      // Bounds the time that the reference takes.
      if (threads == 1 && c.m * c.n * c.k > 1000000) continue;
      for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
        for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
          if (c.m * c.n * c.k > 10000000 && tb == Transpose::kNo) continue;
          for (const bool bias : {false, true}) {
            ExpectDefinition<float, float>(c, ta, tb, Accumulation::kWrite, bias);
            ExpectDefinition<BFloat16, float>(c, ta, tb, Accumulation::kWrite, bias);
            ExpectDefinition<BFloat16, BFloat16>(c, ta, tb, Accumulation::kWrite, bias);
            ExpectDefinition<Float16, float>(c, ta, tb, Accumulation::kWrite, bias);
            ExpectDefinition<Float16, Float16>(c, ta, tb, Accumulation::kWrite, bias);
            if (HasFatalFailure()) return;
          }
          ExpectDefinition<float, float>(c, ta, tb, Accumulation::kAdd, false);
          ExpectDefinition<BFloat16, float>(c, ta, tb, Accumulation::kAdd, false);
          ExpectDefinition<Float16, float>(c, ta, tb, Accumulation::kAdd, false);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  SetComputeThreads(1);
}

// Many blocks of both operands where bf16 is widened.
TEST(GemmTest, LargeEnoughForBlocks) {
  SetComputeThreads(2);
  const Case c = {600, 1700, 2048, 0};
  for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
    const auto a = RandomArray<BFloat16>(c.m * c.k, 1), b = RandomArray<BFloat16>(c.k * c.n, 2);
    std::vector<float> wide_a, wide_b;
    for (const BFloat16 x : a) wide_a.push_back(ToFloat(x));
    for (const BFloat16 x : b) wide_b.push_back(ToFloat(x));
    std::vector<float> wanted(c.m * c.n), got(c.m * c.n);
    std::vector<BFloat16> rounded(c.m * c.n);
    const auto bias = RandomArray(c.n, 3);
    Gemm(c.m, c.n, c.k, wide_a.data(), wide_b.data(), wanted.data(),
         {.transpose_a = ta, .bias = bias.data()});
    Gemm(c.m, c.n, c.k, a.data(), b.data(), got.data(), {.transpose_a = ta, .bias = bias.data()});
    Gemm(c.m, c.n, c.k, a.data(), b.data(), rounded.data(),
         {.transpose_a = ta, .bias = bias.data()});
    ExpectNear(got, Doubles(wanted), 1e-4, 1e-5, "f32");
    ExpectNear(rounded, Doubles(wanted), 1e-4, 1.01 * kRounding<BFloat16>, "bf16");
  }
  SetComputeThreads(1);
}

// Sums go past the largest f16 and come back; the result that does not is an infinity.
TEST(GemmTest, SumsOfFloat16AreF32) {
  const std::vector<Float16> a = {Rounded<Float16>(60000), Rounded<Float16>(60000),
                                  Rounded<Float16>(-60000)};
  const std::vector<Float16> ones(3, Rounded<Float16>(1));
  Float16 sum;
  Gemm(1, 1, 3, a.data(), ones.data(), &sum);
  EXPECT_EQ(ToFloat(sum), ToFloat(a[0]));
  Gemm(1, 1, 2, a.data(), ones.data(), &sum);
  EXPECT_EQ(ToFloat(sum), std::numeric_limits<float>::infinity());
}

// The way of machines with fast bf16 instructions works (by emulation, or their slow ones) on all.
TEST(GemmTest, PrimitiveOfBFloat16EqualsItsDefinition) {
  if (!__builtin_cpu_supports("avx512bw")) GTEST_SKIP() << "oneDNN needs AVX-512 for it";
  // oneDNN fails at the second where AMX is there.
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{33, 40, 70}, {79, 34, 63}}) {
    const auto a = RandomArray<BFloat16>(m * k, 1), b = RandomArray<BFloat16>(n * k, 2);
    const auto before = RandomArray(m * n, 3);
    std::vector<float> got = before;
    RunGemmPrimitive({.m = m,
                      .n = n,
                      .k = k,
                      .transpose_b = Transpose::kYes,
                      .a_stride = k,
                      .b_stride = k,
                      .c_stride = n,
                      .bf16_in = true,
                      .accumulation = Accumulation::kAdd},
                     a.data(), b.data(), nullptr, got.data());
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = before[i * n + j];
        for (int64_t p = 0; p < k; ++p) {
          sum += static_cast<double>(ToFloat(a[i * k + p])) * ToFloat(b[j * k + p]);
        }
        ASSERT_NEAR(got[i * n + j], sum, 1e-4);
      }
    }
  }
}

TEST(GemmTest, OverwritesWhatWasThere) {
  const std::vector<BFloat16> a(6, Rounded<BFloat16>(1)), b(6, Rounded<BFloat16>(1));
  std::vector<float> c(4, std::numeric_limits<float>::quiet_NaN());
  Gemm(2, 2, 3, a.data(), b.data(), c.data());
  EXPECT_THAT(c, testing::Each(3.0f));
}

TEST(GemmTest, SameInputsGiveTheSameBitsFromAnyThread) {
  const int64_t m = 130, n = 96, k = 784;
  const auto a = RandomArray<BFloat16>(m * k, 1), b = RandomArray<BFloat16>(k * n, 2);
  const auto bias = RandomArray(n, 3);
  for (const int threads : {1, 2}) {
    const auto run = [&] {
      SetComputeThreads(threads);
      std::vector<float> c(m * n);
      Gemm(m, n, k, a.data(), b.data(), c.data(), {.bias = bias.data()});
      return c;
    };
    const std::vector<float> first = run();
    std::vector<std::vector<float>> others(4);
    std::vector<std::thread> callers;
    for (auto& other : others) {
      callers.emplace_back([&other, &run] {
        for (int i = 0; i < 5; ++i) other = run();
      });
    }
    for (std::thread& caller : callers) caller.join();
    for (const auto& other : others) EXPECT_TRUE(other == first) << threads << " threads";
  }
  SetComputeThreads(1);
}

// More shapes than are kept.
TEST(GemmTest, ForgetsShapesAndMakesThemAgain) {
  const auto a = RandomArray(1200, 1), bias = RandomArray(1, 2);
  for (int round = 0; round < 2; ++round) {
    for (int64_t k = 1; k <= 1100; ++k) {
      float c = 0;
      Gemm(1, 1, k, a.data(), a.data(), &c, {.bias = bias.data()});
      double sum = bias[0];
      for (int64_t p = 0; p < k; ++p) sum += static_cast<double>(a[p]) * a[p];
      ASSERT_NEAR(c, sum, 1e-6 * (1 + sum)) << k;
    }
  }
}

}  // namespace
}  // namespace muster
