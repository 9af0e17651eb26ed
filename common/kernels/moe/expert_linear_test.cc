#include "common/kernels/moe/expert_linear.h"

#include <vector>

#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

template <typename T>
class ExpertLinearTest : public testing::Test {};
TYPED_TEST_SUITE(ExpertLinearTest, KernelTypes);

struct LinearCase {
  std::vector<int32_t> offsets;
  int64_t in, out;
};

// Empty experts at either end and between; all rows in one expert; a single row.
const std::vector<LinearCase> kLinearCases = {
    {{0, 1}, 1, 1},
    {{0, 0, 1, 1}, 5, 3},
    {{0, 0, 20, 20, 23, 60, 60}, 33, 18},
    {{0, 0, 0, 70, 70}, 40, 64},
};

TYPED_TEST(ExpertLinearTest, EachRowMeetsItsExpert) {
  using T = TypeParam;
  for (const auto& [offsets, in, out] : kLinearCases) {
    const int64_t E = static_cast<int64_t>(offsets.size()) - 1, R = offsets.back();
    const ExpertLinear linear = {.experts = E, .rows = R, .in = in, .out = out};
    const auto x = RandomArray<T>(R * in, 1), dy = RandomArray<T>(R * out, 2),
               weight = RandomArray<T>(E * out * in, 3);
    std::vector<double> y(R * out), dx(R * in), dweight(E * out * in);
    for (int64_t e = 0; e < E; ++e) {
      for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
        for (int64_t o = 0; o < out; ++o) {
          for (int64_t i = 0; i < in; ++i) {
            const int64_t at = (e * out + o) * in + i;
            const double w = ToFloat(weight[at]), a = ToFloat(x[r * in + i]),
                         d = ToFloat(dy[r * out + o]);
            y[r * out + o] += a * w;
            dx[r * in + i] += d * w;
            dweight[at] += d * a;
          }
        }
      }
    }
    std::vector<T> got_y(R * out), got_dx(R * in);
    ExpertLinearForward(linear, offsets.data(), x.data(), weight.data(), got_y.data());
    ExpectNear(got_y, y, 1e-5, kRounding<T>, "y");
    ExpertLinearBackwardInput(linear, offsets.data(), dy.data(), weight.data(), got_dx.data());
    ExpectNear(got_dx, dx, 1e-5, kRounding<T>, "dx");

    // Written over what was there, zeros of empty experts included; then added to it.
    std::vector<float> got(E * out * in, 1e30f);
    ExpertLinearGradientArrays arrays = {
        .dy = dy.data(), .x = x.data(), .accumulation = Accumulation::kWrite, .weight = got.data()};
    ExpertLinearBackwardWeights<T>(linear, offsets.data(), arrays);
    ExpectNear(got, dweight, 1e-5, 0, "written");
    arrays.accumulation = Accumulation::kAdd;
    for (float& each : got) each = 2;
    for (double& each : dweight) each += 2;
    ExpertLinearBackwardWeights<T>(linear, offsets.data(), arrays);
    ExpectNear(got, dweight, 1e-5, 0, "added");
  }
}

}  // namespace
}  // namespace muster
