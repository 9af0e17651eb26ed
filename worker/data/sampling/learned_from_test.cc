#include "worker/data/sampling/learned_from.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/sampling/example_order.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(LearnedFromTest, TrainingExamplesAreLearnedFrom) {
  EXPECT_THAT(*LearnedFrom(4, 0.5, absl::nullopt), ElementsAre(true, true, false, false));
  EXPECT_THAT(*LearnedFrom(2, 0, absl::nullopt), ElementsAre(true, true));
}

TEST(LearnedFromTest, WhereAllAreHeldOutAllAreLearnedFrom) {
  EXPECT_THAT(*LearnedFrom(3, 1, absl::nullopt), ElementsAre(true, true, true));
}

TEST(LearnedFromTest, ARandomShareIsHeldOut) {
  const std::vector<bool> learned = *LearnedFrom(100, 0.25, 7);
  EXPECT_EQ(std::count(learned.begin(), learned.end(), true), 75);
  const ExampleOrder order(7, 100);
  EXPECT_TRUE(learned[order(74)]);
  EXPECT_FALSE(learned[order(75)]);
}

TEST(LearnedFromTest, RefusesWhatIsNoShare) { EXPECT_FALSE(LearnedFrom(4, 2, absl::nullopt).ok()); }

}  // namespace
}  // namespace muster
