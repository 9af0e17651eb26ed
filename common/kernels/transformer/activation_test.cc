#include "common/kernels/transformer/activation.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

double GeluOf(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double GeluSlope(double x) {
  const double root = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

double Silu(double g) { return g / (1 + std::exp(-g)); }

template <typename T>
class ActivationTest : public testing::Test {};
TYPED_TEST_SUITE(ActivationTest, KernelTypes);

TYPED_TEST(ActivationTest, GeluAndItsSlope) {
  using T = TypeParam;
  for (const int64_t n : {0, 1, 15, 16, 37, 20000}) {
    const auto x = RandomArray<T>(n, 1, -6, 6), dy = RandomArray<T>(n, 2);
    ForEachInstructionSet([&] {
      std::vector<T> y(n), dx(n);
      Gelu(n, x.data(), y.data());
      GeluBackward(n, x.data(), dy.data(), dx.data());
      for (int64_t i = 0; i < n; ++i) {
        const double at = ToFloat(x[i]);
        ASSERT_NEAR(ToFloat(y[i]), GeluOf(at), 5e-7 + kRounding<T> * std::abs(GeluOf(at))) << at;
        const double slope = GeluSlope(at) * ToFloat(dy[i]);
        ASSERT_NEAR(ToFloat(dx[i]), slope, 2e-6 + kRounding<T> * std::abs(slope)) << at;
      }
    });
  }
}

// The reference's slope is its derivative.
TEST(GeluTest, SlopeIsTheDifferenceOfTheDefinition) {
  for (double x = -5; x < 5; x += 0.1) {
    const auto f = [](const std::vector<double>& v) { return GeluOf(v[0]); };
    ASSERT_NEAR(GeluSlope(x), Difference(f, {x}, 0), 1e-8);
  }
}

TEST(GeluTest, FarOut) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {
      -1e4f, 1e4f, -50, 50, 0, inf, std::numeric_limits<float>::quiet_NaN()};
  const std::vector<float> one(x.size(), 1);
  ForEachInstructionSet([&] {
    std::vector<float> y(x.size()), dx(x.size());
    Gelu(x.size(), x.data(), y.data());
    GeluBackward(x.size(), x.data(), one.data(), dx.data());
    EXPECT_NEAR(y[0], 0, 1e-20);
    EXPECT_EQ(y[1], 1e4f);
    EXPECT_NEAR(y[2], 0, 1e-20);
    EXPECT_EQ(y[3], 50);
    EXPECT_EQ(y[4], 0);
    EXPECT_EQ(y[5], inf);
    EXPECT_TRUE(std::isnan(y[6]));
    EXPECT_NEAR(dx[0], 0, 1e-20);
    EXPECT_EQ(dx[1], 1);
    EXPECT_EQ(dx[4], 0.5f);
    EXPECT_TRUE(std::isnan(dx[6]));
  });
}

TYPED_TEST(ActivationTest, SwiGluAndItsGradients) {
  using T = TypeParam;
  for (const auto& [rows, F] : {std::pair<int64_t, int64_t>{1, 1}, {3, 17}, {5, 64}, {40, 500}}) {
    const auto x = RandomArray<T>(rows * 2 * F, 1, -5, 5), dy = RandomArray<T>(rows * F, 2);
    ForEachInstructionSet([&, rows = rows, F = F] {
      std::vector<T> y(rows * F), dx(rows * 2 * F);
      SwiGlu(rows, F, x.data(), y.data());
      SwiGluBackward(rows, F, x.data(), dy.data(), dx.data());
      for (int64_t i = 0; i < rows * F; ++i) {
        const int64_t at = i / F * 2 * F + i % F;
        const double g = ToFloat(x[at]), u = ToFloat(x[at + F]), d = ToFloat(dy[i]);
        ASSERT_NEAR(ToFloat(y[i]), Silu(g) * u, 2e-6 + kRounding<T> * std::abs(Silu(g) * u));
        const auto silu = [](const std::vector<double>& v) { return Silu(v[0]); };
        const double dg = d * u * Difference(silu, {g}, 0), du = d * Silu(g);
        ASSERT_NEAR(ToFloat(dx[at]), dg, 4e-6 + kRounding<T> * std::abs(dg));
        ASSERT_NEAR(ToFloat(dx[at + F]), du, 2e-6 + kRounding<T> * std::abs(du));
      }
    });
  }
}

TYPED_TEST(ActivationTest, InPlaceAndOnAnyThreadsTheSameBits) {
  using T = TypeParam;
  const int64_t rows = 70, F = 1001, n = rows * 2 * F;
  const auto x = RandomArray<T>(n, 1, -4, 4), dy = RandomArray<T>(n, 2);
  std::vector<T> y(n), dx(n), d_gate_up(n);
  Gelu(n, x.data(), y.data());
  GeluBackward(n, x.data(), dy.data(), dx.data());
  SwiGluBackward(rows, F, x.data(), dy.data(), d_gate_up.data());
  ExpectSameBitsOnAnyThreads([&] {
    std::vector<T> a = x, b = dy, c = x;
    Gelu(n, a.data(), a.data());
    EXPECT_TRUE(a == y);
    GeluBackward(n, x.data(), b.data(), b.data());
    EXPECT_TRUE(b == dx);
    SwiGluBackward(rows, F, c.data(), dy.data(), c.data());
    EXPECT_TRUE(c == d_gate_up);
    std::vector<T> joined(rows * F);
    SwiGlu(rows, F, x.data(), joined.data());
    return joined;
  });
}

}  // namespace
}  // namespace muster
