#include "server/coordinator/history/slot_losses.h"

#include <limits>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kBoth[] = {0, 1};

std::vector<SeriesPoint> Steps(uint64_t first, std::vector<double> values) {
  std::vector<SeriesPoint> points;
  for (double value : values) points.push_back(OneValue(first++, value));
  return points;
}

SeriesPoint Coarse(uint64_t first, std::vector<double> values) {
  SeriesPoint point = OneValue(first, values[0]);
  for (size_t i = 1; i < values.size(); ++i) point = Joined(point, OneValue(first + i, values[i]));
  return point;
}

class SlotLossesTest : public ::testing::Test {
 protected:
  void Report(uint32_t slot, std::vector<SeriesPoint> points, double weight = 1) {
    losses_.Add(slot, weight, points, {});
    losses_.Reach(slot, points.back().last_step);
  }

  std::vector<SeriesPoint> Take(absl::Span<const uint32_t> slots) {
    return losses_.Take(slots, gaps_);
  }

  SlotLosses losses_{2, 16};
  std::vector<LossGap> gaps_;
};

TEST_F(SlotLossesTest, AStepIsTheMeanOfItsSlotsOnceAllHaveIt) {
  Report(0, Steps(1, {1, 2, 3}), 1);
  EXPECT_THAT(Take(kBoth), IsEmpty());
  Report(1, Steps(1, {5, 6}), 3);
  EXPECT_THAT(Take(kBoth), ElementsAre(OneValue(1, 4), OneValue(2, 5)));
  EXPECT_THAT(Take(kBoth), IsEmpty());
  Report(1, Steps(3, {7}), 3);
  EXPECT_THAT(Take(kBoth), ElementsAre(OneValue(3, 6)));
}

TEST_F(SlotLossesTest, RepeatedAndLateReportsChangeNothing) {
  Report(0, Steps(1, {1, 2}));
  Report(0, Steps(1, {100, 100}));
  Report(0, Steps(2, {100, 3}));
  Report(1, Steps(1, {1, 2, 3}));
  EXPECT_THAT(Take(kBoth), ElementsAre(OneValue(1, 1), OneValue(2, 2), OneValue(3, 3)));
  Report(1, Steps(1, {100, 100, 100}));
  Report(0, Steps(1, {100, 100, 100}));
  EXPECT_THAT(Take(kBoth), IsEmpty());
}

TEST_F(SlotLossesTest, StepsThatOneSlotReportsTogetherAreOnePoint) {
  Report(0, {Coarse(1, {1, 2, 3, 4})});
  Report(1, Steps(1, {3, 4, 5, 6, 7}));
  EXPECT_THAT(Take(kBoth), ElementsAre(Coarse(1, {2, 3, 4, 5})));
  // A point that some slot has not closed waits whole.
  Report(0, {Coarse(5, {1, 1})});
  EXPECT_THAT(Take(kBoth), IsEmpty());
  EXPECT_THAT(losses_.TakeAll(), ElementsAre(Coarse(5, {4, 4})));
}

TEST_F(SlotLossesTest, ASlotThatIsLeftOutHoldsNobodyUp) {
  Report(0, Steps(1, {1, 2}));
  Report(1, Steps(1, {3}));
  EXPECT_THAT(Take({}), IsEmpty());
  EXPECT_THAT(Take({kBoth, 1}), ElementsAre(OneValue(1, 1), OneValue(2, 2)));
}

TEST_F(SlotLossesTest, TheStepsOfALostSlotAreNotMeantWhenTheOthersMakeThemAgain) {
  Report(0, Steps(1, {1}));
  Report(1, Steps(1, {3, 100}));
  EXPECT_THAT(Take(kBoth), ElementsAre(OneValue(1, 2)));
  // Slot 1 is lost in step 2, which slot 0 makes alone.
  EXPECT_THAT(Take({kBoth, 1}), IsEmpty());
  Report(0, Steps(2, {5}));
  EXPECT_THAT(Take({kBoth, 1}), ElementsAre(OneValue(2, 5)));
  Report(0, Steps(3, {6}));
  Report(1, Steps(3, {8}));
  EXPECT_THAT(Take(kBoth), ElementsAre(OneValue(3, 7)));
}

TEST_F(SlotLossesTest, StepsWithoutASlotThatReportsOthersAreAGap) {
  Report(0, Steps(1, {1, 2, 3, 4, 5}));
  Report(1, Steps(1, {3, 4}));
  // Its task dies after steps 3 and 4, which servers have, and the next one goes on from there.
  Report(1, Steps(5, {7}));
  EXPECT_THAT(Take(kBoth), ElementsAre(OneValue(1, 2), OneValue(2, 3), OneValue(3, 3),
                                       OneValue(4, 4), OneValue(5, 6)));
  EXPECT_THAT(gaps_, ElementsAre(LossGap{.first_step = 3, .last_step = 4, .slots = {1}}));
  // Steps that the others made without it are none.
  gaps_.clear();
  Report(0, Steps(6, {1}));
  EXPECT_THAT(Take({kBoth, 1}), ElementsAre(OneValue(6, 1)));
  EXPECT_THAT(gaps_, IsEmpty());
}

TEST_F(SlotLossesTest, ASlotThatNeverTellsALossLeavesNoGap) {
  Report(0, Steps(1, {1, 2}));
  losses_.Reach(1, 2);
  EXPECT_THAT(Take(kBoth), ElementsAre(OneValue(1, 1), OneValue(2, 2)));
  EXPECT_THAT(gaps_, IsEmpty());
}

TEST_F(SlotLossesTest, AWeightThatIsNoneLeavesTheLastOne) {
  Report(1, Steps(1, {2}), 3);
  Report(0, Steps(1, {6}), std::numeric_limits<double>::infinity());
  EXPECT_THAT(Take(kBoth), ElementsAre(OneValue(1, 3)));
  for (double weight : {std::numeric_limits<double>::quiet_NaN(), -1.0, 0.0,
                        std::numeric_limits<double>::infinity()}) {
    Report(1, Steps(losses_.clock(1) + 1, {2}), weight);
    Report(0, Steps(losses_.clock(0) + 1, {6}));
    EXPECT_THAT(Take(kBoth), ElementsAre(OneValue(losses_.clock(0), 3))) << weight;
  }
}

TEST_F(SlotLossesTest, GoingBackForgetsWhatIsLater) {
  Report(0, Steps(1, {1, 2, 3, 4}));
  Report(1, Steps(1, {1}));
  losses_.GoBack(2);
  EXPECT_THAT(Take(kBoth), ElementsAre(OneValue(1, 1), OneValue(2, 2)));
  Report(0, Steps(3, {5}));
  Report(1, Steps(3, {7}));
  EXPECT_THAT(Take(kBoth), ElementsAre(OneValue(3, 6)));
}

TEST_F(SlotLossesTest, ASlotFarAheadTakesNoMoreRoomAndLosesNothing) {
  for (uint64_t step = 1; step <= 1000; ++step) Report(0, Steps(step, {1.0 * step}));
  for (uint64_t step = 1; step <= 1000; ++step) Report(1, Steps(step, {1.0 * step}));
  uint64_t steps = 0, next = 1;
  for (const SeriesPoint& point : Take(kBoth)) {
    EXPECT_EQ(point.first_step, next);
    next = point.last_step + 1;
    steps += point.values;
    EXPECT_DOUBLE_EQ(point.mean, (point.first_step + point.last_step) / 2.0);
  }
  EXPECT_EQ(steps, 1000);
  // Afterwards steps are kept one by one again.
  Report(0, Steps(1001, {1, 2, 3}));
  Report(1, Steps(1001, {1, 2, 3}));
  EXPECT_EQ(Take(kBoth).size(), 3);
}

// Slots report in points of any width, late and repeatedly, and are taken at any time. Each step of
// each slot has the loss 10 * step + slot, so every mean tells which steps it is of.
TEST(SlotLossesPropertyTest, ShowsEachStepOnce) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const uint32_t slots = 1 + random() % 4;
    std::vector<uint32_t> all(slots);
    std::iota(all.begin(), all.end(), 0);
    SlotLosses losses(slots, 64);
    std::vector<uint64_t> clocks(slots, 0);
    std::vector<LossGap> gaps;
    uint64_t shown = 0;
    const auto check = [&](const std::vector<SeriesPoint>& points) {
      for (const SeriesPoint& point : points) {
        ASSERT_EQ(point.first_step, shown + 1);
        ASSERT_EQ(point.values, point.last_step - shown);
        ASSERT_NEAR(point.mean, 5.0 * (point.first_step + point.last_step) + (slots - 1) / 2.0,
                    1e-6);
        shown = point.last_step;
      }
    };
    for (int round = 0; round < 500; ++round) {
      const uint32_t slot = random() % slots;
      const uint64_t first = clocks[slot] - random() % (clocks[slot] / 2 + 1) + 1;
      const auto loss = [slot](uint64_t step) { return 10.0 * step + slot; };
      if (clocks[slot] < shown + 40) {
        std::vector<SeriesPoint> points;
        for (uint64_t step = first; step < first + 10;) {
          // New steps begin a point of their own, and end with a group of 1, 2 or 4 steps.
          const uint64_t group = 1 << random() % 3;
          const uint64_t end =
              step <= clocks[slot] ? clocks[slot] + 1 : (step + group - 1) / group * group + 1;
          SeriesPoint point = OneValue(step, loss(step));
          while (++step < end) point = Joined(point, OneValue(step, loss(step)));
          points.push_back(point);
        }
        losses.Add(slot, 2, points, {});
        clocks[slot] = std::max(clocks[slot], points.back().last_step);
        losses.Reach(slot, clocks[slot]);
      }
      if (random() % 3 == 0) ASSERT_NO_FATAL_FAILURE(check(losses.Take(all, gaps)));
    }
    ASSERT_NO_FATAL_FAILURE(check(losses.Take(all, gaps)));
    EXPECT_GT(shown, 50);
    EXPECT_THAT(gaps, IsEmpty());
  }
}

}  // namespace
}  // namespace muster
