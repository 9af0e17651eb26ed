#include "common/kernels/transformer/head_norm.h"

#include <cmath>
#include <tuple>
#include <vector>

#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

const HeadNormShape kHeadNormShapes[] = {
    {.rows = 1, .groups = 1, .width = 1, .stride = 1, .kept_stride = 1, .epsilon = 1e-2f},
    {.rows = 5, .groups = 3, .width = 10, .stride = 50, .kept_stride = 40, .epsilon = 1e-3f},
    {.rows = 40, .groups = 2, .width = 64, .stride = 130, .kept_stride = 128, .epsilon = 1e-6f},
    {.rows = 70, .groups = 1, .width = 200, .stride = 257, .kept_stride = 200, .epsilon = 1e-6f}};

// y of the reference, in f64 from the definition; other columns of x are left.
std::vector<double> Normed(const HeadNormShape& s, const std::vector<double>& gain,
                           const std::vector<double>& x) {
  std::vector<double> y = x;
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t g = 0; g < s.groups; ++g) {
      const int64_t first = r * s.stride + g * s.width;
      double squares = 0;
      for (int64_t i = 0; i < s.width; ++i) squares += x[first + i] * x[first + i];
      const double rstd =
          1 / std::sqrt(squares / static_cast<double>(s.width) + static_cast<double>(s.epsilon));
      for (int64_t i = 0; i < s.width; ++i) y[first + i] = x[first + i] * rstd * gain[i];
    }
  }
  return y;
}

template <typename T>
class HeadNormTest : public testing::Test {};
TYPED_TEST_SUITE(HeadNormTest, KernelTypes);

TYPED_TEST(HeadNormTest, ForwardAndBackwardOfManyShapes) {
  using T = TypeParam;
  for (const HeadNormShape& s : kHeadNormShapes) {
    const int64_t n = s.rows * s.stride;
    const auto x = RandomArray<T>(n, 1, -1, 2), dy = RandomArray<T>(n, 2);
    const auto gain = RandomArray(s.width, 3, 0.5f, 1.5f);
    const auto wanted = Normed(s, Doubles(gain), Doubles(x));
    ForEachInstructionSet([&] {
      std::vector<T> y = x, kept(s.rows * s.kept_stride), dx = dy;
      std::vector<float> gain_gradient(s.width, 1);
      HeadNorm(s, gain.data(), y.data(), kept.data());
      ExpectNear(y, wanted, 1e-5, kRounding<T>, "y");
      for (int64_t r = 0; r < s.rows; ++r) {
        for (int64_t i = 0; i < s.groups * s.width; ++i) {
          ASSERT_EQ(ToFloat(kept[r * s.kept_stride + i]), ToFloat(x[r * s.stride + i]));
        }
      }
      std::vector<T> unkept = x;
      HeadNorm<T>(s, gain.data(), unkept.data(), nullptr);
      EXPECT_TRUE(unkept == y);

      HeadNormBackward(s, kept.data(), gain.data(), dx.data(), gain_gradient.data());
      const auto loss = [&](const std::vector<double>& gain, const std::vector<double>& x) {
        return Dot(Normed(s, gain, x), Doubles(dy));
      };
      for (int64_t i = 0; i < n; i += n / 12 + 1) {
        const double by_x = Difference(
            [&](const std::vector<double>& v) { return loss(Doubles(gain), v); }, Doubles(x), i);
        ASSERT_NEAR(ToFloat(dx[i]), by_x, 2e-5 + (1e-5 + kRounding<T>)*std::abs(by_x)) << i;
      }
      for (int64_t i = 0; i < s.width; i += s.width / 5 + 1) {
        const double by_gain = Difference(
            [&](const std::vector<double>& v) { return loss(v, Doubles(x)); }, Doubles(gain), i);
        ASSERT_NEAR(gain_gradient[i] - 1, by_gain, 1e-4) << i;
      }
    });
    ExpectSameBitsOnAnyThreads([&] {
      std::vector<T> y = x, kept(s.rows * s.kept_stride), dx = dy;
      std::vector<float> gain_gradient(s.width);
      HeadNorm(s, gain.data(), y.data(), kept.data());
      HeadNormBackward(s, kept.data(), gain.data(), dx.data(), gain_gradient.data());
      return std::tuple(y, dx, gain_gradient);
    });
  }
}

}  // namespace
}  // namespace muster
