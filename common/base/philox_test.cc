#include "common/base/philox.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// Known answers of the reference implementation (Random123's kat_vectors, philox4x32 with 10
// rounds).
TEST(PhiloxTest, MatchesReferenceVectors) {
  EXPECT_THAT(Philox(0).At(0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox(0xffffffffffffffff).At(0xffffffffffffffff, 0xffffffffffffffff),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox(0x299f31d0a4093822).At(0x85a308d3243f6a88, 0x0370734413198a2e),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(PhiloxTest, UsesAreIndependent) {
  EXPECT_NE(Philox(1, "init", "w").Uint64(0), Philox(1, "init", "b").Uint64(0));
  EXPECT_NE(Philox(1, "init", "w").Uint64(0), Philox(1, "shuffle", "w").Uint64(0));
  EXPECT_NE(Philox(1, "init", "w").Uint64(0), Philox(2, "init", "w").Uint64(0));
  EXPECT_EQ(Philox(1, "init", "w").Uint64(7), Philox(1, "init", "w").Uint64(7));
}

TEST(PhiloxTest, MomentsAreRight) {
  const Philox random(42);
  constexpr int kSamples = 100000;
  double uniform = 0, normal = 0, square = 0;
  for (int i = 0; i < kSamples; ++i) {
    uniform += random.Uniform(i);
    const double x = random.Normal(i, 1);
    normal += x;
    square += x * x;
  }
  EXPECT_NEAR(uniform / kSamples, 0.5, 0.005);
  EXPECT_NEAR(normal / kSamples, 0.0, 0.015);
  EXPECT_NEAR(square / kSamples, 1.0, 0.02);
}

TEST(PhiloxTest, BelowStaysBelowAndReachesAll) {
  const Philox random(3);
  int seen[5] = {};
  for (int i = 0; i < 1000; ++i) ++seen[random.Below(5, i)];
  for (int count : seen) EXPECT_GT(count, 150);
}

}  // namespace
}  // namespace muster
