#include "common/tensor/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/philox.h"
#include "common/tensor/float16.h"
#include "common/tensor/half_kernels.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

class HalfTest : public testing::TestWithParam<DType> {
 protected:
  DType type() const { return GetParam(); }
  float largest() const { return type() == DType::kBf16 ? F32OfBf16(0x7f7f) : 65504; }

  uint16_t Round(float value) const {
    return type() == DType::kBf16 ? Bf16OfF32(value) : F16OfF32(value);
  }
  float Widen(uint16_t bits) const {
    return type() == DType::kBf16 ? F32OfBf16(bits) : F32OfF16(bits);
  }

  // Both kinds of kernels where the machine has both.
  std::vector<const HalfKernels*> Kernels() const {
    std::vector<const HalfKernels*> kernels = {PortableHalfKernels(type())};
    if (Avx512HalfKernels(type()) != nullptr) kernels.push_back(Avx512HalfKernels(type()));
    return kernels;
  }
};

// Numbers of every exponent and sign, halfway cases, subnormals, infinities and NaNs.
std::vector<float> AllKinds() {
  std::vector<float> values;
  const Philox random(1);
  for (uint32_t i = 0; i < 1 << 16; ++i) {
    values.push_back(F32OfBits(i << 16));
    values.push_back(F32OfBits(i << 16 | 0x8000));
    values.push_back(F32OfBits(static_cast<uint32_t>(random.Uint64(i))));
    values.push_back(F32OfF16(static_cast<uint16_t>(i)));
    values.push_back(F32OfBits(BitsOfF32(F32OfF16(static_cast<uint16_t>(i))) + 0x1000));
    values.push_back(F32OfBits(BitsOfF32(F32OfF16(static_cast<uint16_t>(i))) ^ 1));
  }
  return values;
}

bool SameBits(float a, float b) { return BitsOfF32(a) == BitsOfF32(b); }

TEST_P(HalfTest, RoundsEveryKindOfNumberAsDefined) {
  const std::vector<float> values = AllKinds();
  for (const HalfKernels* kernels : Kernels()) {
    std::vector<uint16_t> bits(values.size());
    kernels->round(values.size(), values.data(), bits.data());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(bits[i], Round(values[i])) << std::hex << BitsOfF32(values[i]);
    }
  }
}

TEST_P(HalfTest, WidensAndAddsExactlyFromAnyAlignment) {
  std::vector<std::byte> memory(2 * 65536 + 1);
  std::byte* bits = memory.data() + 1;
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t value = static_cast<uint16_t>(i);
    std::memcpy(bits + 2 * i, &value, 2);
  }
  for (const HalfKernels* kernels : Kernels()) {
    std::vector<float> widened(65536), added(65536, 1.5f);
    kernels->widen(65536, bits, widened.data());
    kernels->add(65536, bits, added.data());
    for (uint32_t i = 0; i < 65536; ++i) {
      const float expected = Widen(static_cast<uint16_t>(i));
      ASSERT_TRUE(SameBits(widened[i], expected)) << i;
      if (!std::isnan(expected)) {
        ASSERT_EQ(added[i], 1.5f + expected) << i;
      }
    }
  }
}

TEST_P(HalfTest, KernelsTouchTheirElementsOnly) {
  std::vector<float> values(80), residual(80, 0.2503f);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i) - 0.3f;
  for (const HalfKernels* kernels : Kernels()) {
    for (size_t n = 0; n <= 70; ++n) {
      std::vector<uint16_t> bits(80, 0x1234);
      std::vector<float> rest = residual, sum = values;
      kernels->round_with_residual(n, values.data(), rest.data(), bits.data());
      kernels->add(n, reinterpret_cast<const std::byte*>(bits.data()), sum.data());
      for (size_t i = 0; i < 80; ++i) {
        ASSERT_EQ(bits[i] != 0x1234, i < n);
        ASSERT_EQ(rest[i] != 0.2503f, i < n);
        ASSERT_EQ(SameBits(sum[i], values[i]), i >= n);
      }
      kernels->round_stochastically(n, values.data(), 1, 2, bits.data());
      for (size_t i = n; i < 80; ++i) ASSERT_EQ(bits[i], 0x1234);
    }
  }
}

TEST_P(HalfTest, WhatIsSentAndTheResidualAreWhatWasGiven) {
  const std::vector<float> values = AllKinds();
  for (const HalfKernels* kernels : Kernels()) {
    std::vector<float> residual(values.size());
    for (size_t i = 0; i < residual.size(); ++i) residual[i] = 1e-4f * static_cast<float>(i % 7);
    const std::vector<float> before = residual;
    std::vector<uint16_t> bits(values.size());
    kernels->round_with_residual(values.size(), values.data(), residual.data(), bits.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const float v = values[i] + before[i];
      if (!std::isfinite(v)) {
        ASSERT_EQ(bits[i], Round(v)) << v;
        ASSERT_EQ(residual[i], 0);
        continue;
      }
      const float sent = Widen(bits[i]);
      ASSERT_TRUE(std::isfinite(sent)) << v;
      ASSERT_EQ(sent, std::clamp(Widen(Round(v)), -largest(), largest())) << v;
      ASSERT_EQ(residual[i], v - sent) << v;
    }
  }
}

TEST_P(HalfTest, ErrorsDoNotAddUp) {
  // Far below one unit in the last place of 1: rounding alone would never send any of it after the
  // first.
  const float first = 1, later = 1e-5f;
  float residual = 0;
  double sum = 0;
  for (int step = 0; step < 20000; ++step) {
    const float value = step == 0 ? first : later;
    uint16_t bits;
    RoundWithResidual(type(), {&value, 1}, &residual, &bits);
    sum += Widen(bits);
  }
  EXPECT_NEAR(sum + residual, 1 + 19999 * 1e-5, 1e-5);
  EXPECT_NEAR(sum, 1.2, 1e-3);
}

TEST_P(HalfTest, ExcessIsSentLater) {
  const float huge = type() == DType::kBf16 ? std::numeric_limits<float>::max() : 200000;
  float residual = 0;
  uint16_t bits;
  RoundWithResidual(type(), {&huge, 1}, &residual, &bits);
  EXPECT_EQ(Widen(bits), largest());
  EXPECT_EQ(residual, huge - largest());
  const float none = 0;
  double sent = Widen(bits);
  for (int step = 0; step < 4; ++step) {
    RoundWithResidual(type(), {&none, 1}, &residual, &bits);
    sent += Widen(bits);
  }
  EXPECT_EQ(sent, huge);
  EXPECT_EQ(residual, 0);
}

TEST_P(HalfTest, StochasticRoundingGivesANeighbourAndTheSameOnEveryMachine) {
  const std::vector<float> values = AllKinds();
  std::vector<std::vector<uint16_t>> results;
  for (const HalfKernels* kernels : Kernels()) {
    std::vector<uint16_t> bits(values.size());
    kernels->round_stochastically(values.size(), values.data(), 0x12345, 0x6789, bits.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const float value = values[i];
      if (!std::isfinite(value)) {
        ASSERT_EQ(bits[i], Round(value));
        continue;
      }
      const float got = Widen(bits[i]);
      ASSERT_LE(std::fabs(got), largest());
      ASSERT_EQ(std::signbit(got), std::signbit(value));
      if (std::fabs(value) >= largest()) {
        ASSERT_EQ(std::fabs(got), largest());
        continue;
      }
      // Nothing else lies between.
      const float nearest = Widen(Round(value));
      if (nearest == value) {
        ASSERT_EQ(got, value);
        continue;
      }
      const uint16_t away = Round(value) + (std::fabs(nearest) > std::fabs(value) ? -1 : 1);
      ASSERT_TRUE(got == nearest || got == Widen(away)) << value << " became " << got;
    }
    results.push_back(std::move(bits));
  }
  for (const std::vector<uint16_t>& bits : results) EXPECT_EQ(bits, results.front());
}

TEST_P(HalfTest, StochasticRoundingIsRightInTheMean) {
  // Including a number below the smallest normal f16.
  for (const float value : {0.3337f, -1.0003f, 3.1e-6f, 777.77f}) {
    const std::vector<float> values(64, value);
    std::vector<uint16_t> bits(64);
    double sum = 0;
    for (uint64_t seed = 0; seed < 4000; ++seed) {
      RoundStochastically(type(), values, seed * 0x9e3779b97f4a7c15, bits.data());
      for (uint16_t b : bits) sum += Widen(b);
    }
    const double unit = std::fabs(Widen(Round(value)) - Widen(Round(value) + 1));
    // Five standard deviations of a mean of 256,000 numbers that are one unit apart.
    EXPECT_NEAR(sum / (4000 * 64), value, unit * 0.005) << value;
  }
}

TEST_P(HalfTest, StochasticRoundingFollowsItsSeed) {
  const std::vector<float> values(256, 1.0001f);
  std::vector<uint16_t> a(256), b(256), c(256);
  RoundStochastically(type(), values, 7, a.data());
  RoundStochastically(type(), values, 7, b.data());
  RoundStochastically(type(), values, uint64_t{7} << 32, c.data());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

INSTANTIATE_TEST_SUITE_P(Types, HalfTest, testing::Values(DType::kBf16, DType::kF16),
                         [](const auto& info) { return Name(info.param); });

}  // namespace
}  // namespace muster
