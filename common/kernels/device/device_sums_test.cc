// Sums, the order of tokens, and optimizers.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "common/kernels/device/device_arrays.h"
#include "common/kernels/device/device_embedding.h"
#include "common/kernels/device/device_optimizer.h"
#include "common/kernels/device/device_test_lib.h"
#include "common/kernels/elementwise.h"

namespace muster {
namespace {

class DeviceSumsTest : public DeviceKernelTest {};

TEST_P(DeviceSumsTest, SumOfSquares) {
  for (const int64_t n : {1, 100, 65536, 65537, 200003}) {
    const std::vector<float> x = RandomNumbers(DType::kF32, n, 1);
    double* const sum = Copied(std::vector<double>{3});
    double* const scratch = Room<double>(DeviceSquaresScratch(n) * sizeof(double));
    float* const device_x = Copied(x);
    DeviceSumOfSquares(stream(), n, device_x, Accumulation::kAdd, sum, scratch);
    const double wanted = SquaredSum(n, x.data());
    EXPECT_NEAR(Read(sum, 1)[0], 3 + wanted, 1e-5 * wanted);
    DeviceSumOfSquares(stream(), n, device_x, Accumulation::kWrite, sum, scratch);
    const double once = Read(sum, 1)[0];
    DeviceSumOfSquares(stream(), n, device_x, Accumulation::kWrite, sum, scratch);
    EXPECT_EQ(Read(sum, 1)[0], once) << "a second run gives other bits";
  }
  for (const float odd : {INFINITY, NAN}) {
    std::vector<float> x(1000, 1e25f);
    double* const sum = Room<double>(sizeof(double));
    double* const scratch = Room<double>(sizeof(double));
    DeviceSumOfSquares(stream(), 1000, Copied(x), Accumulation::kWrite, sum, scratch);
    EXPECT_TRUE(std::isfinite(Read(sum, 1)[0]));
    x[777] = odd;
    DeviceSumOfSquares(stream(), 1000, Copied(x), Accumulation::kWrite, sum, scratch);
    EXPECT_FALSE(std::isfinite(Read(sum, 1)[0]));
  }
}

TEST_P(DeviceSumsTest, AddAddsElementByElement) {
  for (const int64_t n : {1, 8, 100, 4099}) {
    const std::vector<float> x = RandomNumbers(DType::kF32, n, 1);
    const std::vector<float> y = RandomNumbers(DType::kF32, n, 2);
    std::vector<float> wanted = y;
    for (int64_t i = 0; i < n; ++i) wanted[i] += x[i];
    float* const sums = Copied(y);
    DeviceAdd(stream(), n, Copied(x), sums);
    EXPECT_EQ(Read(sums, n), wanted) << n;
    // Not aligned for vector loads.
    if (n == 1) continue;
    float* const odd = Copied(y);
    DeviceAdd(stream(), n - 1, Copied(x) + 1, odd + 1);
    wanted[0] = y[0];
    EXPECT_EQ(Read(odd, n), wanted) << n;
  }
}

TEST_P(DeviceSumsTest, TokenOrder) {
  const std::vector<int32_t> tokens = {5, 2, 5, 9, 2, 5};
  std::vector<int32_t> order(TokenOrderSize(6)), counts(10);
  FillTokenOrder(tokens, absl::MakeSpan(counts), absl::MakeSpan(order));
  EXPECT_EQ(order,
            (std::vector<int32_t>{1, 4, 0, 2, 5, 3, 0, 2, 5, 6, 6, 6, 6, 2, 5, 9, -1, -1, -1, 3}));
}

TEST_P(DeviceSumsTest, TokenOrderIsThatOfAStableSort) {
  constexpr int32_t kVocabulary = 300;
  std::mt19937 random(7);
  // Of the batch before.
  std::vector<int32_t> counts(kVocabulary, -5);
  for (const int64_t rows : {1, 2, 299, 1000, 5000}) {
    std::vector<int32_t> tokens(rows);
    for (int32_t& token : tokens) {
      // Some often, many seldom or never.
      token = static_cast<int32_t>(random() % (random() % kVocabulary + 1));
    }
    std::vector<int32_t> sorted(rows);
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](int32_t a, int32_t b) { return tokens[a] < tokens[b]; });
    std::vector<int32_t> begins, occurring;
    for (int32_t i = 0; i < rows; ++i) {
      const int32_t token = tokens[sorted[i]];
      if (!occurring.empty() && token == occurring.back()) continue;
      begins.push_back(i);
      occurring.push_back(token);
    }
    std::vector<int32_t> expected = sorted;
    const auto count = static_cast<int32_t>(occurring.size());
    begins.resize(rows + 1, static_cast<int32_t>(rows));
    occurring.resize(rows, -1);
    expected.insert(expected.end(), begins.begin(), begins.end());
    expected.insert(expected.end(), occurring.begin(), occurring.end());
    expected.push_back(count);

    std::vector<int32_t> order(TokenOrderSize(rows));
    FillTokenOrder(tokens, absl::MakeSpan(counts), absl::MakeSpan(order));
    EXPECT_EQ(order, expected) << rows;
  }
}

TEST_P(DeviceSumsTest, Adam) {
  for (const AdamKind kind : {AdamKind::kAdam, AdamKind::kAdamW}) {
    const int64_t n = 1003;
    const AdamOptions options = {
        .kind = kind, .beta1 = 0.8f, .beta2 = 0.95f, .weight_decay = 0.1f, .clip_value = 0.4f};
    std::vector<float> w = RandomNumbers(DType::kF32, n, 1);
    float* const weights = Copied(w);
    float* const m = Copied(std::vector<float>(n, 0));
    float* const v = Copied(std::vector<float>(n, 0));
    void* const rounded = Room(type(), n);
    std::vector<double> ms(n), vs(n), ws(w.begin(), w.end());
    for (uint64_t step = 1; step <= 3; ++step) {
      const std::vector<float> g = RandomNumbers(DType::kF32, n, 10 + step);
      const double rate = 0.01, scale = 0.5;
      for (int64_t i = 0; i < n; ++i) {
        double used = std::min(0.4, std::max(-0.4, g[i] * scale));
        if (kind == AdamKind::kAdam) used += 0.1 * ws[i];
        ms[i] = 0.8 * ms[i] + 0.2 * used;
        vs[i] = 0.95 * vs[i] + 0.05 * used * used;
        const double t = static_cast<double>(step);
        const double m_hat = ms[i] / (1 - std::pow(0.8, t));
        const double v_hat = vs[i] / (1 - std::pow(0.95, t));
        if (kind == AdamKind::kAdamW) ws[i] -= rate * 0.1 * ws[i];
        ws[i] -= rate * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
      DeviceAdam(stream(), n, Copied(std::vector<DeviceAdamStep>{AdamStepOf(options, 0.01f, step)}),
                 Copied(std::vector<GradientControl>{{.scale = 0.5f}}),
                 {.gradient = Copied(g),
                  .weights = weights,
                  .m = m,
                  .v = v,
                  .rounded_type = type(),
                  .rounded = rounded});
    }
    const std::vector<float> got = Read(weights, n);
    ExpectClose(got, std::vector<float>(ws.begin(), ws.end()), 1e-6, 1e-6, "weights");
    std::vector<float> wanted;
    for (float value : got) wanted.push_back(RoundedTo(type(), value));
    EXPECT_EQ(Get(type(), rounded, n), wanted) << "rounded";
  }
}

TEST_P(DeviceSumsTest, ASkippedStepChangesNothingButTheLowPrecisionCopy) {
  const std::vector<float> w = RandomNumbers(DType::kF32, 10, 1);
  float* const weights = Copied(w);
  float* const m = Copied(std::vector<float>(10, 3));
  float* const v = Copied(std::vector<float>(10, 4));
  void* const rounded = Room(type(), 10);
  DeviceAdam(stream(), 10, Copied(std::vector<DeviceAdamStep>{AdamStepOf({}, 1, 1)}),
             Copied(std::vector<GradientControl>{{.scale = 1, .skip = 1}}),
             {.gradient = Copied(std::vector<float>(10, NAN)),
              .weights = weights,
              .m = m,
              .v = v,
              .rounded_type = type(),
              .rounded = rounded});
  EXPECT_EQ(Read(weights, 10), w);
  EXPECT_EQ(Read(m, 10), std::vector<float>(10, 3));
  EXPECT_EQ(Read(v, 10), std::vector<float>(10, 4));
  std::vector<float> wanted;
  for (float value : w) wanted.push_back(RoundedTo(type(), value));
  EXPECT_EQ(Get(type(), rounded, 10), wanted);
}

TEST_P(DeviceSumsTest, MovesBySigns) {
  const std::vector<float> g = {3, -1e-30f, 0, -0.0f, NAN, -7, 2, 1, 1, -1, 0.5f};
  const std::vector<float> w = RandomNumbers(DType::kF32, 11, 1);
  for (const bool skips : {false, true}) {
    float* const weights = Copied(w);
    void* const rounded = Room(type(), 11);
    DeviceSignStep(
        stream(), 11, 0.25f, Copied(std::vector<GradientControl>{{.skip = skips}}),
        {.gradient = Copied(g), .weights = weights, .rounded_type = type(), .rounded = rounded});
    const std::vector<float> got = Read(weights, 11);
    const std::vector<float> copies = Get(type(), rounded, 11);
    for (size_t i = 0; i < w.size(); ++i) {
      const float moved = g[i] > 0 ? w[i] - 0.25f : g[i] < 0 ? w[i] + 0.25f : w[i];
      const float wanted = skips ? w[i] : moved;
      if (!skips && std::isnan(g[i])) {
        EXPECT_TRUE(std::isnan(got[i]));
      } else {
        EXPECT_EQ(got[i], wanted) << i;
        EXPECT_EQ(copies[i], RoundedTo(type(), wanted)) << i;
      }
    }
  }
}

TEST_P(DeviceSumsTest, DecidesTheStep) {
  const auto decide = [&](double squares, double examples, float loss_scale, float max_norm) {
    auto* const control = Room<GradientControl>(sizeof(GradientControl));
    DeviceDecideStep(stream(), {.max_norm = max_norm}, Copied(std::vector<double>{squares}),
                     Copied(std::vector<double>{examples}), Copied(std::vector<float>{loss_scale}),
                     control);
    return Read(control, 1)[0];
  };
  // Sums with norm 24 over 4 examples at loss scale 2 give means with norm 3.
  GradientControl control = decide(576, 4, 2, INFINITY);
  EXPECT_EQ(control.norm, 3);
  EXPECT_EQ(control.scale, 1.0f / 8);
  EXPECT_EQ(control.skip, 0);
  EXPECT_FLOAT_EQ(decide(576, 4, 2, 1).scale, 1.0f / 24);
  EXPECT_EQ(decide(576, 4, 2, 3).scale, 1.0f / 8);
  EXPECT_EQ(decide(INFINITY, 4, 2, 1).skip, 1);
  EXPECT_EQ(decide(NAN, 4, 2, 1).skip, 1);
  control = decide(0, 0, 1, 1);
  EXPECT_EQ(control.skip, 1);
  EXPECT_EQ(control.scale, 0);
}

MUSTER_FOR_STORAGE_TYPES(DeviceSumsTest);

}  // namespace
}  // namespace muster
