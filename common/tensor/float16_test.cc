#include "common/tensor/float16.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What the bits mean, by definition.
double MeaningOfF16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 0x3ff;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(Float16Test, EveryF16IsReadExactlyAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = F32OfF16(bits);
    const uint32_t magnitude = bits & 0x7fff;
    if (magnitude > 0x7c00) {
      ASSERT_TRUE(std::isnan(value)) << std::hex << bits;
      ASSERT_EQ(F16OfF32(value), bits | 0x200);
    } else {
      const double sign = bits & 0x8000 ? -1 : 1;
      ASSERT_EQ(value, magnitude == 0x7c00 ? sign * kInfinity : MeaningOfF16(bits)) << bits;
      ASSERT_EQ(std::signbit(value), sign < 0);
      ASSERT_EQ(F16OfF32(value), bits);
    }
  }
}

TEST(Float16Test, EveryBf16IsReadExactlyAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = F32OfBf16(bits);
    ASSERT_EQ(BitsOfF32(value), bits << 16);
    ASSERT_EQ(Bf16OfF32(value), std::isnan(value) ? bits | 0x40 : bits);
  }
}

// Halfway between neighbours, and the least bit beside it on either hand.
TEST(Float16Test, F16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    // The largest number's upper neighbour is taken to be the next power of two.
    const double above = bits == 0x7bff ? 65536 : MeaningOfF16(bits + 1);
    const float middle = static_cast<float>((MeaningOfF16(bits) + above) / 2);
    const uint16_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(F16OfF32(middle), even) << bits;
    ASSERT_EQ(F16OfF32(-middle), even | 0x8000);
    ASSERT_EQ(F16OfF32(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(F16OfF32(std::nextafter(middle, kInfinity)), bits + 1);
  }
  EXPECT_EQ(F16OfF32(1e10f), 0x7c00);
  EXPECT_EQ(F16OfF32(-kInfinity), 0xfc00);
  EXPECT_EQ(F16OfF32(1e-40f), 0);
}

TEST(Float16Test, Bf16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const uint32_t middle = bits << 16 | 0x8000;
    ASSERT_EQ(Bf16OfF32(F32OfBits(middle)), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(Bf16OfF32(F32OfBits(middle - 1)), bits);
    ASSERT_EQ(Bf16OfF32(F32OfBits(middle + 1)), bits + 1);
  }
}

TEST(Float16Test, NansWhosePayloadIsCutStayNans) {
  EXPECT_TRUE(std::isnan(F32OfF16(F16OfF32(F32OfBits(0x7f800001)))));
  EXPECT_TRUE(std::isnan(F32OfBf16(Bf16OfF32(F32OfBits(0x7f800001)))));
  EXPECT_TRUE(std::isnan(F32OfBf16(Bf16OfF32(F32OfBits(0x7fffffff)))));
}

}  // namespace
}  // namespace muster
