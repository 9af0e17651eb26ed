#include "common/kernels/transformer/vector_kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/kernels/transformer/kernel_test_lib.h"
#include "common/tensor/bfloat16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Exp(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  ActiveVectorKernels().exp(x.size(), x.data(), y.data());
  return y;
}

TEST(VectorKernelsTest, TheBaselineIsAlwaysThere) {
  const VectorKernelList list = UsableVectorKernels();
  ASSERT_GE(list.count, 1);
  EXPECT_EQ(list.kernels[list.count - 1], BaselineVectorKernels());
  EXPECT_EQ(&ActiveVectorKernels(), list.kernels[0]);
}

TEST(VectorKernelsTest, ExpIsWithinTwoUnitsInTheLastPlace) {
  std::vector<float> x;
  for (double at = -87.336; at < 88.722; at += 7e-4) x.push_back(static_cast<float>(at));
  for (double at = 1e-9; at < 1; at *= 1.01) {
    x.push_back(static_cast<float>(at));
    x.push_back(static_cast<float>(-at));
  }
  ForEachInstructionSet([&] {
    const std::vector<float> y = Exp(x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double wanted = std::exp(static_cast<double>(x[i]));
      const double unit = std::ldexp(1.0, std::ilogb(wanted) - 23);
      ASSERT_LE(std::abs(y[i] - wanted), 2 * unit) << "exp(" << x[i] << ")";
    }
  });
}

TEST(VectorKernelsTest, ExpOfWhatHasNoNormalResult) {
  ForEachInstructionSet([&] {
    const std::vector<float> y =
        Exp({-kInfinity, -1000, -88, -87.34f, 88.73f, 1000, kInfinity, 0, kNan});
    EXPECT_THAT(std::vector<float>(y.begin(), y.end() - 1),
                testing::ElementsAre(0, 0, 0, 0, kInfinity, kInfinity, kInfinity, 1));
    EXPECT_TRUE(std::isnan(y.back()));
  });
}

// Over lengths with a rest, and values that round up, down, to even, to infinity, and NaNs.
template <typename T>
void ExpectConversionOfOneNumber(std::vector<float> x) {
  for (const uint32_t bits :
       {0x3f808000u, 0x3f818000u, 0x3f808001u, 0x7f7fffffu, 0x7f800000u, 0xff800001u, 0x7fc12345u,
        0x00000001u, 0x80000000u, 0x0000ffffu, 0x3f801000u, 0x3f803000u, 0x3f801001u, 0x477fefffu,
        0x477ff000u, 0x38800000u, 0x387fffffu, 0x33000000u, 0x33000001u, 0x33800000u}) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    x.insert(x.begin() + bits % 50, value);
  }
  ForEachInstructionSet([&] {
    for (int64_t n = 0; n <= static_cast<int64_t>(x.size()); ++n) {
      std::vector<T> narrow(n + 1);
      ActiveKernelsOf<T>().narrow(n, x.data(), narrow.data());
      std::vector<float> wide(n + 1);
      ActiveKernelsOf<T>().widen(n, narrow.data(), wide.data());
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(narrow[i].bits, Rounded<T>(x[i]).bits) << x[i];
        const float back = ToFloat(narrow[i]);
        ASSERT_EQ(std::memcmp(&wide[i], &back, sizeof(back)), 0) << x[i];
      }
      ASSERT_EQ(narrow[n].bits, 0) << "wrote past the end";
      ASSERT_EQ(wide[n], 0) << "wrote past the end";
    }
  });
}

TEST(VectorKernelsTest, ConversionIsThatOfOneNumber) {
  ExpectConversionOfOneNumber<BFloat16>(RandomArray(100, 1, -1e30f, 1e30f));
  ExpectConversionOfOneNumber<Float16>(RandomArray(100, 1, -7e4f, 7e4f));
  ExpectConversionOfOneNumber<Float16>(RandomArray(100, 2, -1e-4f, 1e-4f));
}

// Every number there is, but signalling NaNs, which arithmetic makes quiet.
TEST(VectorKernelsTest, EveryFloat16ThereAndBack) {
  std::vector<Float16> all(65536);
  for (int i = 0; i < 65536; ++i) all[i].bits = static_cast<uint16_t>(i);
  ForEachInstructionSet([&] {
    std::vector<float> wide(all.size());
    std::vector<Float16> back(all.size());
    ActiveKernelsOf<Float16>().widen(all.size(), all.data(), wide.data());
    ActiveKernelsOf<Float16>().narrow(all.size(), wide.data(), back.data());
    for (size_t i = 0; i < all.size(); ++i) {
      const bool signalling = (i & 0x7fff) > 0x7c00 && (i & 0x7fff) < 0x7e00;
      ASSERT_EQ(back[i].bits, signalling ? i | 0x200 : i);
    }
  });
}

}  // namespace
}  // namespace muster
