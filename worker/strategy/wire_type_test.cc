#include "worker/strategy/wire_type.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

float RoundTrip(float value) {
  uint16_t bits = 0;
  float back = 0;
  ToBf16({&value, 1}, {&bits, 1});
  FromBf16({&bits, 1}, {&back, 1});
  return back;
}

TEST(WireTypeTest, EveryBf16ComesBackAsItWas) {
  std::vector<uint16_t> bits(1 << 16), back(1 << 16);
  std::vector<float> values(1 << 16);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  FromBf16(bits, absl::MakeSpan(values));
  ToBf16(values, absl::MakeSpan(back));
  for (size_t i = 0; i < bits.size(); ++i) {
    if (std::isnan(values[i])) {
      EXPECT_EQ(back[i], bits[i] | 0x40) << i;
    } else {
      EXPECT_EQ(back[i], bits[i]) << i;
    }
  }
}

TEST(WireTypeTest, RoundsToNearestEven) {
  // Neighbours at 1 are 2^-7 apart.
  EXPECT_EQ(RoundTrip(1 + 0x1p-9f), 1);
  EXPECT_EQ(RoundTrip(1 + 0x1p-8f), 1);
  EXPECT_EQ(RoundTrip(1 + 0x1p-8f + 0x1p-20f), 1 + 0x1p-7f);
  EXPECT_EQ(RoundTrip(1 + 0x3p-8f), 1 + 0x1p-6f);
  EXPECT_EQ(RoundTrip(-1 - 0x3p-8f), -1 - 0x1p-6f);
}

TEST(WireTypeTest, KeepsWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(RoundTrip(infinity), infinity);
  EXPECT_EQ(RoundTrip(-infinity), -infinity);
  // Past the largest bf16, the nearest is infinity.
  EXPECT_EQ(RoundTrip(std::numeric_limits<float>::max()), infinity);
  EXPECT_TRUE(std::isnan(RoundTrip(std::numeric_limits<float>::quiet_NaN())));
  // A NaN that only its lower half tells from infinity.
  EXPECT_TRUE(std::isnan(RoundTrip(std::bit_cast<float>(uint32_t{0x7f800001}))));
}

}  // namespace
}  // namespace muster
