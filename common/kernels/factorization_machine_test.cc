#include "common/kernels/factorization_machine.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Small whole numbers, so that sums are exact.
std::vector<float> FactorValues(int64_t n) {
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i * 37 % 11 - 5);
  return values;
}

// Over all pairs, as the definition has it. D crosses the length of the kernel's pieces.
TEST(FactorizationMachineTest, MatchesSumOverPairs) {
  for (int64_t D : {1, 3, 16, 64, 65, 130}) {
    const FactorShape shape = {.B = 3, .F = 4, .D = D, .stride = 4 * D + 2};
    const std::vector<float> vectors = FactorValues(shape.B * shape.stride);
    const std::vector<float> out_gradient = {2, -1, 3};
    std::vector<float> expected(shape.B);
    std::vector<float> expected_gradient(vectors.size(), 1);
    for (int64_t i = 0; i < shape.B; ++i) {
      const int64_t example = i * shape.stride;
      for (int64_t f = 0; f < shape.F; ++f) {
        for (int64_t g = 0; g < shape.F; ++g) {
          if (f == g) continue;
          for (int64_t d = 0; d < D; ++d) {
            const float other = vectors[example + g * D + d];
            if (f < g) expected[i] += vectors[example + f * D + d] * other;
            expected_gradient[example + f * D + d] += out_gradient[i] * other;
          }
        }
      }
    }
    std::vector<float> out(shape.B);
    FactorizationMachine(shape, vectors.data(), out.data());
    EXPECT_EQ(out, expected) << D;
    std::vector<float> gradient(vectors.size(), 1);
    FactorizationMachineBackward(shape, vectors.data(), out_gradient.data(), gradient.data());
    EXPECT_EQ(gradient, expected_gradient) << D;
  }
}

TEST(FactorizationMachineTest, NoFieldsGiveZero) {
  std::vector<float> out(2, 5);
  FactorizationMachine({.B = 2, .F = 0, .D = 4, .stride = 0}, nullptr, out.data());
  EXPECT_EQ(out, std::vector<float>(2));
}

}  // namespace
}  // namespace muster
