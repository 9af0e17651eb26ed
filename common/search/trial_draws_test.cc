#include "common/search/trial_draws.h"

#include <cmath>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "common/search/search_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// Returns a trial's draws, such as "workers=2 threads_per_worker=1"; "none" beyond a grid's end.
std::string DrawsOf(const v1::SearchSpec& spec, uint64_t trial) {
  const auto draws = TrialDraws(spec, trial);
  if (!draws.has_value()) return "none";
  std::string text;
  for (const v1::Draw& draw : *draws) {
    text += (text.empty() ? "" : " ") + draw.field() + "=" + draw.value();
  }
  return text;
}

constexpr char kRate[] =
    "parameters { field: 'optimizer.learning_rate' log_uniform { min: 1e-4 max: 1e-1 } } ";

TEST(TrialDrawsTest, AFurtherParameterChangesNoOtherDraw) {
  const v1::SearchSpec one = SmallSearch(kRate);
  const v1::SearchSpec two = SmallSearch(
      std::string("parameters { field: 'workers' integer { min: 1 max: 4 } } ") + kRate);
  for (uint64_t trial = 1; trial <= 20; ++trial) {
    EXPECT_EQ(TrialDraws(one, trial)->back().value(), TrialDraws(two, trial)->back().value());
  }
}

TEST(TrialDrawsTest, SeedsTrialsAndFieldsDrawOtherValues) {
  const v1::SearchSpec spec = SmallSearch(kRate);
  EXPECT_NE(DrawsOf(spec, 1), DrawsOf(spec, 2));
  v1::SearchSpec other = spec;
  other.set_seed(1);
  EXPECT_NE(DrawsOf(spec, 1), DrawsOf(other, 1));
  other = SmallSearch(
      "parameters { field: 'a' uniform { max: 1 } } "
      "parameters { field: 'b' uniform { max: 1 } }");
  EXPECT_NE(TrialDraws(other, 1)->at(0).value(), TrialDraws(other, 1)->at(1).value());
}

TEST(TrialDrawsTest, LogarithmsAreUniform) {
  const v1::SearchSpec spec = SmallSearch(kRate);
  std::map<int, int> decades;
  for (uint64_t trial = 1; trial <= 3000; ++trial) {
    double value = 0;
    ASSERT_TRUE(absl::SimpleAtod(TrialDraws(spec, trial)->at(0).value(), &value));
    ASSERT_GE(value, 1e-4);
    ASSERT_LE(value, 1e-1);
    ++decades[static_cast<int>(std::floor(std::log10(value)))];
  }
  ASSERT_EQ(decades.size(), 3u);
  // Each has 1000 with a standard deviation of 26.
  for (const auto& [decade, count] : decades) EXPECT_NEAR(count, 1000, 150) << decade;
}

TEST(TrialDrawsTest, IntegersTakeEachStepOfTheRangeAndBothEnds) {
  const v1::SearchSpec spec =
      SmallSearch("parameters { field: 'workers' integer { min: -2 max: 5 step: 3 } }");
  std::map<std::string, int> counts;
  for (uint64_t trial = 1; trial <= 300; ++trial) ++counts[DrawsOf(spec, trial)];
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_EQ(counts.count("workers=-2") + counts.count("workers=1") + counts.count("workers=4"), 3u);
}

TEST(TrialDrawsTest, AGridTriesAllPointsOnceWhereConditionsHold) {
  const v1::SearchSpec spec = SmallSearch(
      "grid {} parameters { field: 'optimizer.name' choice { values: ['sgd', 'adam'] } } "
      "parameters { field: 'optimizer.momentum' choice { values: ['0', '0.9'] } "
      "             when { field: 'optimizer.name' equals: 'sgd' } } "
      "parameters { field: 'workers' integer { min: 1 max: 2 } }");
  EXPECT_EQ(GridPoints(spec, 100), 6u);
  EXPECT_EQ(GridPoints(spec, 4), 4u);
  std::vector<std::string> points;
  for (uint64_t trial = 1; trial <= 7; ++trial) points.push_back(DrawsOf(spec, trial));
  EXPECT_THAT(points, ElementsAre("optimizer.name=sgd optimizer.momentum=0 workers=1",
                                  "optimizer.name=sgd optimizer.momentum=0 workers=2",
                                  "optimizer.name=sgd optimizer.momentum=0.9 workers=1",
                                  "optimizer.name=sgd optimizer.momentum=0.9 workers=2",
                                  "optimizer.name=adam workers=1", "optimizer.name=adam workers=2",
                                  "none"));
}

TEST(TrialDrawsTest, RandomDrawsHeedConditions) {
  const v1::SearchSpec spec = SmallSearch(
      "parameters { field: 'optimizer.name' choice { values: ['sgd', 'adam'] } } "
      "parameters { field: 'optimizer.momentum' uniform { max: 1 } "
      "             when { field: 'optimizer.name' equals: 'sgd' } }");
  int with_momentum = 0;
  for (uint64_t trial = 1; trial <= 100; ++trial) {
    const auto draws = *TrialDraws(spec, trial);
    EXPECT_EQ(draws.size(), draws[0].value() == "sgd" ? 2u : 1u);
    with_momentum += draws.size() == 2;
  }
  EXPECT_NEAR(with_momentum, 50, 25);
}

TEST(TrialDrawsTest, RealTextReadsBackToTheSameNumber) {
  for (const double value : {0.1, 1.0 / 3, 1e-300, 12345678.9}) {
    double back = 0;
    ASSERT_TRUE(absl::SimpleAtod(RealText(value), &back));
    EXPECT_EQ(back, value);
  }
  EXPECT_EQ(RealText(0.1), "0.1");
}

}  // namespace
}  // namespace muster
