#include "common/eval/regression_sums.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(RegressionSumsTest, TravelAsBytes) {
  const RegressionSums sums = {1.5, 2, -3, 1e300};
  const auto unpacked = UnpackSums(PackSums(sums));
  ASSERT_TRUE(unpacked.ok()) << unpacked.status();
  EXPECT_EQ(unpacked->squared_errors, 1.5);
  EXPECT_EQ(unpacked->absolute_errors, 2);
  EXPECT_EQ(unpacked->deviations, -3);
  EXPECT_EQ(unpacked->squared_deviations, 1e300);
  EXPECT_EQ(PackSums(sums).size(), 32);
}

TEST(RegressionSumsTest, NoBytesAreNoExamples) {
  const auto none = UnpackSums("");
  ASSERT_TRUE(none.ok()) << none.status();
  RegressionSums sums = {1, 2, 3, 4};
  sums += *none;
  EXPECT_EQ(PackSums(sums), PackSums({1, 2, 3, 4}));
}

TEST(RegressionSumsTest, RefusesWhatCannotBe) {
  EXPECT_THAT(std::string(UnpackSums("1234").status().message()), HasSubstr("4 bytes"));
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_THAT(std::string(UnpackSums(PackSums({inf, 0, 0, 0})).status().message()),
              HasSubstr("number 1 of the sums of errors is inf"));
  EXPECT_THAT(std::string(UnpackSums(PackSums({0, 0, std::nan(""), 0})).status().message()),
              HasSubstr("number 3"));
  EXPECT_THAT(std::string(UnpackSums(PackSums({0, -1, 0, 0})).status().message()),
              HasSubstr("number 2"));
}

}  // namespace
}  // namespace muster
