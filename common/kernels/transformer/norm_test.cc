#include "common/kernels/transformer/norm.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/kernels/transformer/kernel_test_lib.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Factors of the branch's elements, 1 without dropout.
std::vector<double> BranchFactors(const DropoutMask* mask, const DropoutShape& dropout, int64_t n) {
  std::vector<float> factors(n, 1);
  for (int64_t i = 0; mask != nullptr && i * dropout.size < dropout.elements; ++i) {
    DropoutFactors(*mask, dropout.first_example + i, 0, dropout.size,
                   factors.data() + i * dropout.size);
  }
  return Doubles(factors);
}

struct NormReference {
  std::vector<double> sum, out, mean, rstd;
};

NormReference NormOf(const NormShape& shape, const std::vector<double>& sum,
                     const std::vector<double>& gain, const std::vector<double>& bias) {
  const int64_t C = shape.width;
  NormReference r = {.sum = sum, .out = sum, .mean = {}, .rstd = {}};
  for (int64_t row = 0; row < shape.rows; ++row) {
    double mean = 0, square = 0;
    for (int64_t c = 0; c < C; ++c) mean += sum[row * C + c] / C;
    if (shape.kind == NormKind::kRmsNorm) mean = 0;
    for (int64_t c = 0; c < C; ++c) square += std::pow(sum[row * C + c] - mean, 2) / C;
    const double rstd = 1 / std::sqrt(square + static_cast<double>(shape.epsilon));
    r.mean.push_back(mean);
    r.rstd.push_back(rstd);
    for (int64_t c = 0; c < C; ++c) {
      r.out[row * C + c] = (sum[row * C + c] - mean) * rstd * gain[c] + bias[c];
    }
  }
  return r;
}

struct NormCase {
  int64_t examples, rows_per_example, width;
};
const NormCase kNormCases[] = {{1, 1, 1},  {1, 3, 7},   {2, 2, 16},
                               {1, 2, 45}, {3, 11, 96}, {2, 40, 600}};

template <typename T>
class NormTest : public testing::Test {
 protected:
  // Everything that one case has.
  struct Setting {
    NormShape shape;
    DropoutShape dropout;
    const DropoutMask* mask;
    std::vector<float> x, gain, bias, dsum;
    std::vector<T> branch, dout;
  };

  static Setting Make(const NormCase& c, NormKind kind, const DropoutMask* mask) {
    const int64_t rows = c.examples * c.rows_per_example, n = rows * c.width;
    return {.shape = {.kind = kind, .rows = rows, .width = c.width, .epsilon = 1e-3f},
            .dropout = {.elements = n, .size = c.rows_per_example * c.width, .first_example = 9},
            .mask = mask,
            .x = RandomArray(n, 1, -1, 2),
            .gain = RandomArray(c.width, 2, 0.5f, 1.5f),
            .bias = RandomArray(c.width, 3),
            .dsum = RandomArray(n, 4),
            .branch = RandomArray<T>(n, 5),
            .dout = RandomArray<T>(n, 6)};
  }

  static std::vector<double> SumOf(const Setting& s, const std::vector<double>& x,
                                   const std::vector<double>& branch) {
    const auto factors = BranchFactors(s.mask, s.dropout, x.size());
    std::vector<double> sum = x;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += branch[i] * factors[i];
    return sum;
  }

  struct Forward {
    std::vector<float> sum, mean, rstd;
    std::vector<T> out;
  };
  static Forward Run(const Setting& s) {
    const size_t n = s.x.size(), rows = s.shape.rows;
    Forward f = {.sum = std::vector<float>(n),
                 .mean = std::vector<float>(rows),
                 .rstd = std::vector<float>(rows),
                 .out = std::vector<T>(n)};
    Norm<T>(
        s.shape,
        {.x = s.x.data(),
         .branch = s.branch.data(),
         .mask = s.mask,
         .dropout = s.dropout,
         .gain = s.gain.data(),
         .bias = s.bias.data()},
        {.sum = f.sum.data(), .out = f.out.data(), .mean = f.mean.data(), .rstd = f.rstd.data()});
    return f;
  }
};
TYPED_TEST_SUITE(NormTest, KernelTypes);

TYPED_TEST(NormTest, ForwardAndBackwardOfManyShapes) {
  using T = TypeParam;
  const DropoutMask mask(3, "norm", 4, 0.25f);
  for (const NormCase& c : kNormCases) {
    for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
      for (const DropoutMask* dropped : {static_cast<const DropoutMask*>(nullptr), &mask}) {
        const auto s = TestFixture::Make(c, kind, dropped);
        const int64_t n = s.x.size(), C = c.width;
        const auto x = Doubles(s.x), branch = Doubles(s.branch), gain = Doubles(s.gain),
                   bias = Doubles(s.bias), dout = Doubles(s.dout), dsum = Doubles(s.dsum);
        const auto wanted = NormOf(s.shape, TestFixture::SumOf(s, x, branch), gain, bias);
        // What reaches the loss: the norm's output and, by the stream, the sum.
        const auto loss = [&](const std::vector<double>& x, const std::vector<double>& branch,
                              const std::vector<double>& gain, const std::vector<double>& bias) {
          const auto r = NormOf(s.shape, TestFixture::SumOf(s, x, branch), gain, bias);
          return Dot(r.out, dout) + Dot(r.sum, dsum);
        };
        ForEachInstructionSet([&] {
          const auto f = TestFixture::Run(s);
          ExpectNear(f.sum, wanted.sum, 1e-6, 1e-6, "sum");
          ExpectNear(f.rstd, wanted.rstd, 0, 2e-6, "rstd");
          if (kind == NormKind::kLayerNorm) ExpectNear(f.mean, wanted.mean, 1e-6, 0, "mean");
          ExpectNear(f.out, wanted.out, 3e-5, kRounding<T>, "out");

          std::vector<float> dx(n), gain_gradient(C, 1), bias_gradient(C, 2);
          std::vector<T> dbranch(n);
          NormBackward<T>(s.shape,
                          {.sum = f.sum.data(),
                           .gain = s.gain.data(),
                           .mean = f.mean.data(),
                           .rstd = f.rstd.data(),
                           .dout = s.dout.data(),
                           .dsum = s.dsum.data(),
                           .mask = s.mask,
                           .dropout = s.dropout},
                          {.dx = dx.data(),
                           .dbranch = dbranch.data(),
                           .gain = gain_gradient.data(),
                           .bias = bias_gradient.data()});
          for (int64_t i = 0; i < n; i += n / 7 + 1) {
            const double by_x = Difference(
                [&](const std::vector<double>& v) { return loss(v, branch, gain, bias); }, x, i);
            const double by_branch = Difference(
                [&](const std::vector<double>& v) { return loss(x, v, gain, bias); }, branch, i);
            ASSERT_NEAR(dx[i], by_x, 2e-4 + 1e-5 * std::abs(by_x)) << i;
            ASSERT_NEAR(ToFloat(dbranch[i]), by_branch,
                        2e-4 + (1e-5 + kRounding<T>)*std::abs(by_branch))
                << i;
          }
          for (int64_t i = 0; i < C; i += C / 5 + 1) {
            const double by_gain = Difference(
                [&](const std::vector<double>& v) { return loss(x, branch, v, bias); }, gain, i);
            const double by_bias = Difference(
                [&](const std::vector<double>& v) { return loss(x, branch, gain, v); }, bias, i);
            ASSERT_NEAR(gain_gradient[i] - 1, by_gain, 1e-3) << i;
            ASSERT_NEAR(bias_gradient[i] - 2, by_bias, 1e-4) << i;
          }
        });
      }
    }
  }
}

// Leaves out the branch, the bias and the stream's gradient.
TYPED_TEST(NormTest, OptionalParts) {
  using T = TypeParam;
  const auto s = TestFixture::Make({1, 5, 40}, NormKind::kRmsNorm, nullptr);
  const int64_t n = s.x.size(), C = 40;
  const std::vector<double> none(C, 0.0);
  const auto wanted = NormOf(s.shape, Doubles(s.x), Doubles(s.gain), none);
  std::vector<T> out(n);
  std::vector<float> rstd(5), dx(n), gain_gradient(C);
  Norm<T>(s.shape, {.x = s.x.data(), .gain = s.gain.data()},
          {.out = out.data(), .rstd = rstd.data()});
  ExpectNear(out, wanted.out, 1e-5, kRounding<T>, "out");
  ExpectNear(rstd, wanted.rstd, 0, 1e-6, "rstd");

  NormBackward<T>(
      s.shape,
      {.sum = s.x.data(), .gain = s.gain.data(), .rstd = rstd.data(), .dout = s.dout.data()},
      {.dx = dx.data(), .gain = gain_gradient.data()});
  const auto loss = [&](const std::vector<double>& v) {
    return Dot(NormOf(s.shape, v, Doubles(s.gain), none).out, Doubles(s.dout));
  };
  for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(dx[i], Difference(loss, Doubles(s.x), i), 1e-5);
}

TYPED_TEST(NormTest, InPlaceAndOnAnyThreadsTheSameBits) {
  using T = TypeParam;
  const DropoutMask mask(3, "norm", 4, 0.25f);
  const auto s = TestFixture::Make({4, 61, 130}, NormKind::kLayerNorm, &mask);
  const auto f = TestFixture::Run(s);
  ExpectSameBitsOnAnyThreads([&] {
    std::vector<float> sum = s.x, dx = s.dsum, gain(130, 0.0f), bias(130, 0.0f);
    std::vector<float> mean(s.shape.rows), rstd(s.shape.rows);
    std::vector<T> out = s.branch, dbranch = s.dout;
    Norm<T>(s.shape,
            {.x = sum.data(),
             .branch = out.data(),
             .mask = &mask,
             .dropout = s.dropout,
             .gain = s.gain.data(),
             .bias = s.bias.data()},
            {.sum = sum.data(), .out = out.data(), .mean = mean.data(), .rstd = rstd.data()});
    EXPECT_TRUE(sum == f.sum);
    EXPECT_TRUE(out == f.out);
    NormBackward<T>(
        s.shape,
        {.sum = sum.data(),
         .gain = s.gain.data(),
         .mean = mean.data(),
         .rstd = rstd.data(),
         .dout = dbranch.data(),
         .dsum = dx.data(),
         .mask = &mask,
         .dropout = s.dropout},
        {.dx = dx.data(), .dbranch = dbranch.data(), .gain = gain.data(), .bias = bias.data()});
    return std::tuple(dx, dbranch, gain, bias);
  });
}

TEST(NormNanTest, StaysInItsRow) {
  std::vector<float> x = RandomArray(3 * 20, 1), gain(20, 1.0f), out(60), mean(3), rstd(3);
  x[25] = std::numeric_limits<float>::quiet_NaN();
  Norm<float>({.rows = 3, .width = 20}, {.x = x.data(), .gain = gain.data()},
              {.out = out.data(), .mean = mean.data(), .rstd = rstd.data()});
  for (int64_t i = 0; i < 60; ++i) EXPECT_EQ(std::isnan(out[i]), i / 20 == 1);
}

}  // namespace
}  // namespace muster
