#include "common/kernels/transformer/rotary.h"

#include <cmath>
#include <vector>

#include "common/kernels/transformer/documents_for_testing.h"
#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

struct RotaryCase {
  RotaryShape shape;
  double base;
};

const std::vector<int32_t> kRotaryPositions = DocumentPositions(2, 150, 3);

const RotaryCase kRotaryCases[] = {
    {{.rows = 1, .context = 1, .heads = 1, .head_dim = 2, .stride = 2}, 10000},
    {{.rows = 14, .context = 7, .heads = 3, .head_dim = 10, .stride = 50}, 10000},
    {{.rows = 6, .context = 3, .first_position = 90, .heads = 2, .head_dim = 64, .stride = 192},
     500000},
    {{.rows = 300, .context = 150, .heads = 6, .head_dim = 48, .stride = 300}, 10000},
    {{.rows = 300,
      .context = 150,
      .heads = 2,
      .head_dim = 20,
      .stride = 60,
      .token_positions = kRotaryPositions.data()},
     10000},
};

// y of the reference, in f64 from the definition.
std::vector<double> Turned(const RotaryCase& c, const std::vector<double>& x) {
  const RotaryShape& s = c.shape;
  std::vector<double> y = x;
  const int64_t half = s.head_dim / 2;
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t i = 0; i < half; ++i) {
        const int64_t position =
            s.token_positions != nullptr ? s.token_positions[r] : s.first_position + r % s.context;
        const double angle =
            static_cast<double>(position) * std::pow(c.base, -2.0 * i / s.head_dim);
        const int64_t low = r * s.stride + h * s.head_dim + i;
        y[low] = x[low] * std::cos(angle) - x[low + half] * std::sin(angle);
        y[low + half] = x[low + half] * std::cos(angle) + x[low] * std::sin(angle);
      }
    }
  }
  return y;
}

template <typename T>
class RotaryTest : public testing::Test {};
TYPED_TEST_SUITE(RotaryTest, KernelTypes);

TYPED_TEST(RotaryTest, TurnsByTheDefinitionAndBackwardIsItsTranspose) {
  using T = TypeParam;
  for (const RotaryCase& c : kRotaryCases) {
    const RotaryShape& s = c.shape;
    std::vector<float> table((s.first_position + s.context) * s.head_dim);
    FillRotaryTable(s.first_position + s.context, s.head_dim, {.base = c.base}, table.data());
    const auto x = RandomArray<T>(s.rows * s.stride, 1), dy = RandomArray<T>(s.rows * s.stride, 2);
    ForEachInstructionSet([&] {
      std::vector<T> y = x, dx = dy;
      Rotary(s, table.data(), y.data());
      RotaryBackward(s, table.data(), dx.data());
      // What lies behind the heads is left alone.
      ExpectNear(y, Turned(c, Doubles(x)), 5e-7, kRounding<T>, "y");
      const auto loss = [&](const std::vector<double>& v) {
        return Dot(Turned(c, v), Doubles(dy));
      };
      const int64_t step = s.rows * s.stride / 12 + 1;
      for (int64_t i = 0; i < s.rows * s.stride; i += step) {
        const double wanted = Difference(loss, Doubles(x), i);
        ASSERT_NEAR(ToFloat(dx[i]), wanted, 2e-6 + kRounding<T> * std::abs(wanted)) << i;
      }
    });
    ExpectSameBitsOnAnyThreads([&] {
      std::vector<T> y = x;
      Rotary(s, table.data(), y.data());
      return y;
    });
  }
}

}  // namespace
}  // namespace muster
