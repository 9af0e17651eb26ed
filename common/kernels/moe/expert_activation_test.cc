#include "common/kernels/moe/expert_activation.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <random>
#include <vector>

#include "common/kernels/transformer/activation.h"
#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

double ExactGelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double ExactSilu(double x) { return x / (1 + std::exp(-x)); }

std::vector<int32_t> Permutation(int64_t n, uint32_t seed) {
  std::vector<int32_t> values(n);
  std::iota(values.begin(), values.end(), 0);
  std::mt19937 random(seed);
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

template <typename T>
class ExpertActivationTest : public testing::Test {};
TYPED_TEST_SUITE(ExpertActivationTest, KernelTypes);

TYPED_TEST(ExpertActivationTest, WeighsRowsAndTheirGradients) {
  using T = TypeParam;
  for (const bool gated : {false, true}) {
    for (const auto& [R, F] : {std::pair<int64_t, int64_t>{1, 1}, {7, 16}, {40, 37}, {130, 300}}) {
      const int64_t columns = gated ? 2 * F : F;
      const ExpertActivation activation = {.rows = R, .F = F, .gated = gated};
      const auto x = RandomArray<T>(R * columns, 1, -4, 4), dy = RandomArray<T>(R * F, 2);
      const auto weights = RandomArray(R, 3, 0, 2);
      const auto assignments = Permutation(R, 4);
      std::vector<double> y(R * F), dx(R * columns), dweights(R);
      for (int64_t i = 0; i < R * F; ++i) {
        const int64_t row = i / F, at = row * columns + i % F, assignment = assignments[row];
        const double v = ToFloat(x[at]), d = ToFloat(dy[i]), w = weights[assignment];
        const double up = gated ? ToFloat(x[at + F]) : 1;
        const auto f = [&](const std::vector<double>& a) {
          return gated ? ExactSilu(a[0]) : ExactGelu(a[0]);
        };
        y[i] = w * f({v}) * up;
        dweights[assignment] += d * f({v}) * up;
        dx[at] = w * d * up * Difference(f, {v}, 0);
        if (gated) dx[at + F] = w * d * f({v});
      }
      ForEachInstructionSet([&] {
        std::vector<T> got(R * F), got_dx(R * columns);
        std::vector<float> got_dweights(R, -1);
        ActivateExperts<T>(activation, {.x = x.data(),
                                        .assignments = assignments.data(),
                                        .weights = weights.data(),
                                        .y = got.data()});
        ExpectNear(got, y, 4e-6, kRounding<T>, "y");
        ActivateExpertsBackward<T>(activation, {.x = x.data(),
                                                .assignments = assignments.data(),
                                                .weights = weights.data(),
                                                .dy = dy.data(),
                                                .dx = got_dx.data(),
                                                .dweights = got_dweights.data()});
        ExpectNear(got_dx, dx, 8e-6, kRounding<T>, "dx");
        ExpectNear(got_dweights, dweights, 2e-5, 2e-6, "dweights");
      });
    }
  }
}

TYPED_TEST(ExpertActivationTest, AWeightOfOneGivesTheBitsOfThePlainActivation) {
  using T = TypeParam;
  const int64_t R = 60, F = 1001;
  const auto x = RandomArray<T>(R * 2 * F, 1, -4, 4), dy = RandomArray<T>(R * 2 * F, 2);
  const std::vector<float> ones(2 * R, 1);
  const auto assignments = Permutation(2 * R, 3);
  std::vector<T> y(R * 2 * F), dx(R * 2 * F);
  ExpectSameBitsOnAnyThreads([&] {
    std::vector<T> got(R * 2 * F), got_dx(R * 2 * F);
    std::vector<float> dweights(2 * R);
    for (const bool gated : {false, true}) {
      const ExpertActivation activation = {.rows = gated ? R : 2 * R, .F = F, .gated = gated};
      if (gated) {
        SwiGlu(R, F, x.data(), y.data());
        SwiGluBackward(R, F, x.data(), dy.data(), dx.data());
      } else {
        Gelu(R * 2 * F, x.data(), y.data());
        GeluBackward(R * 2 * F, x.data(), dy.data(), dx.data());
      }
      ActivateExperts<T>(activation, {.x = x.data(),
                                      .assignments = assignments.data(),
                                      .weights = ones.data(),
                                      .y = got.data()});
      ActivateExpertsBackward<T>(activation, {.x = x.data(),
                                              .assignments = assignments.data(),
                                              .weights = ones.data(),
                                              .dy = dy.data(),
                                              .dx = got_dx.data(),
                                              .dweights = dweights.data()});
      const int64_t n = activation.rows * F;
      EXPECT_TRUE(std::equal(y.begin(), y.begin() + n, got.begin())) << gated;
      EXPECT_TRUE(got_dx == dx) << gated;
    }
    return dweights;
  });
}

}  // namespace
}  // namespace muster
