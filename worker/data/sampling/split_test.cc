#include "worker/data/sampling/split.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SplitTest, HoldsOutTheLastPart) {
  const Split digits = SplitExamples(10'000, 0.2).value();
  EXPECT_EQ(digits.training, 8000);
  EXPECT_EQ(digits.held_out, 2000);
  const Split odd = SplitExamples(7, 0.1).value();
  EXPECT_EQ(odd.training, 6);
  EXPECT_EQ(odd.held_out, 1);
}

TEST(SplitTest, TheEndsTakeAll) {
  EXPECT_EQ(SplitExamples(5, 0).value().training, 5);
  EXPECT_EQ(SplitExamples(5, 0).value().held_out, 0);
  EXPECT_EQ(SplitExamples(5, 1).value().training, 0);
  EXPECT_EQ(SplitExamples(5, 1).value().held_out, 5);
}

TEST(SplitTest, RefusesWhatIsNoFraction) {
  for (const double holdout : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()}) {
    const auto split = SplitExamples(100, holdout);
    EXPECT_EQ(split.status().code(), absl::StatusCode::kInvalidArgument) << holdout;
    EXPECT_THAT(std::string(split.status().message()), HasSubstr("data.holdout is "));
  }
}

TEST(SplitTest, RefusesAFractionThatLeavesASideEmpty) {
  for (const double holdout : {0.01, 0.99}) {
    const auto split = SplitExamples(10, holdout);
    EXPECT_EQ(split.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(split.status().message()),
                AllOf(HasSubstr("of 10 examples"), HasSubstr("leaves")));
  }
}

}  // namespace
}  // namespace muster
