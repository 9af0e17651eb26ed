#include "worker/runtime/training/step_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;
using Kind = StepAction::Kind;

StepAction Acquire(int unit, Direction direction, int micro_batch = 0) {
  return {Kind::kAcquire, unit, micro_batch, direction};
}

StepAction Release(int unit, Direction direction, int micro_batch = 0) {
  return {Kind::kRelease, unit, micro_batch, direction};
}

TEST(StepPlanTest, GradientsLeaveWhileEarlierUnitsStillCompute) {
  EXPECT_THAT(TrainingStepPlan({.units = 2, .has_rows = true}),
              ElementsAre(StepAction{Kind::kBeginStep}, StepAction{Kind::kLoad},
                          StepAction{Kind::kPrefetchRows}, StepAction{Kind::kLookUpRows},
                          Acquire(0, Direction::kForward), StepAction{Kind::kForward, 0},
                          Release(0, Direction::kForward), Acquire(1, Direction::kBackward),
                          StepAction{Kind::kBeginBackward}, StepAction{Kind::kLastUnit, 1},
                          Release(1, Direction::kBackward), StepAction{Kind::kCheckLoss},
                          StepAction{Kind::kSendGradients, 1}, Acquire(0, Direction::kBackward),
                          StepAction{Kind::kBackward, 0}, Release(0, Direction::kBackward),
                          StepAction{Kind::kSendGradients, 0}, StepAction{Kind::kPushRows},
                          StepAction{Kind::kEndStep}));
}

TEST(StepPlanTest, ModelsWithoutTablesMoveNoRows) {
  EXPECT_THAT(TrainingStepPlan({.units = 1}),
              ElementsAre(StepAction{Kind::kBeginStep}, StepAction{Kind::kLoad},
                          Acquire(0, Direction::kBackward), StepAction{Kind::kBeginBackward},
                          StepAction{Kind::kLastUnit, 0}, Release(0, Direction::kBackward),
                          StepAction{Kind::kCheckLoss}, StepAction{Kind::kSendGradients, 0},
                          StepAction{Kind::kEndStep}));
}

// Returns the plan without the actions that the other tests hold to their places.
std::vector<StepAction> WithoutLifetimes(const StepShape& shape) {
  std::vector<StepAction> plan = TrainingStepPlan(shape);
  std::erase_if(plan, [](const StepAction& action) {
    return action.kind == Kind::kAcquire || action.kind == Kind::kRelease;
  });
  return plan;
}

TEST(StepPlanTest, EachMicroBatchSendsGradientsThatDoNotAddUpHere) {
  for (const bool scaled : {false, true}) {
    const Kind sent = scaled ? Kind::kGradientReady : Kind::kSendGradients;
    std::vector<StepAction> expected;
    for (const int m : {0, 1}) {
      for (const int unit : {1, 0}) expected.push_back({sent, unit, m});
    }
    std::vector<StepAction> plan = WithoutLifetimes(
        {.units = 2, .micro_batches = 2, .scaled_loss = scaled, .sends_micro_batches = true});
    std::erase_if(plan, [](const StepAction& action) {
      return action.kind != Kind::kGradientReady && action.kind != Kind::kSendGradients;
    });
    EXPECT_EQ(plan, expected);
  }
}

TEST(StepPlanTest, OnlyTheLastMicroBatchSendsGradients) {
  EXPECT_THAT(
      WithoutLifetimes({.units = 2, .has_rows = true, .micro_batches = 2}),
      ElementsAre(StepAction{Kind::kBeginStep}, StepAction{Kind::kLoad},
                  StepAction{Kind::kPrefetchRows}, StepAction{Kind::kLookUpRows},
                  StepAction{Kind::kForward, 0}, StepAction{Kind::kBeginBackward},
                  StepAction{Kind::kLastUnit, 1}, StepAction{Kind::kCheckLoss},
                  StepAction{Kind::kGradientReady, 1}, StepAction{Kind::kBackward, 0},
                  StepAction{Kind::kGradientReady, 0}, StepAction{Kind::kPushRows},
                  StepAction{Kind::kLoad, -1, 1}, StepAction{Kind::kPrefetchRows, -1, 1},
                  StepAction{Kind::kLookUpRows, -1, 1}, StepAction{Kind::kForward, 0, 1},
                  StepAction{Kind::kBeginBackward, -1, 1}, StepAction{Kind::kLastUnit, 1, 1},
                  StepAction{Kind::kCheckLoss, -1, 1}, StepAction{Kind::kSendGradients, 1, 1},
                  StepAction{Kind::kBackward, 0, 1}, StepAction{Kind::kSendGradients, 0, 1},
                  StepAction{Kind::kPushRows, -1, 1}, StepAction{Kind::kEndStep}));
}

// Whether they overflowed is for the strategy, which may send them while earlier units compute.
TEST(StepPlanTest, ScaledGradientsLeaveUnchecked) {
  EXPECT_THAT(WithoutLifetimes({.units = 2, .micro_batches = 2, .scaled_loss = true}),
              ElementsAre(StepAction{Kind::kBeginStep}, StepAction{Kind::kLoad},
                          StepAction{Kind::kForward, 0}, StepAction{Kind::kBeginBackward},
                          StepAction{Kind::kLastUnit, 1}, StepAction{Kind::kCheckLoss},
                          StepAction{Kind::kGradientReady, 1}, StepAction{Kind::kBackward, 0},
                          StepAction{Kind::kGradientReady, 0}, StepAction{Kind::kLoad, -1, 1},
                          StepAction{Kind::kForward, 0, 1}, StepAction{Kind::kBeginBackward, -1, 1},
                          StepAction{Kind::kLastUnit, 1, 1}, StepAction{Kind::kCheckLoss, -1, 1},
                          StepAction{Kind::kGradientReady, 1, 1}, StepAction{Kind::kBackward, 0, 1},
                          StepAction{Kind::kGradientReady, 0, 1}, StepAction{Kind::kEndStep}));
}

TEST(StepPlanTest, OfADeviceTheHostTakesTheLossAfterTheStepAndChecksNoGradients) {
  EXPECT_THAT(WithoutLifetimes({.units = 2, .micro_batches = 2, .on_device = true}),
              ElementsAre(StepAction{Kind::kBeginStep}, StepAction{Kind::kLoad},
                          StepAction{Kind::kForward, 0}, StepAction{Kind::kBeginBackward},
                          StepAction{Kind::kLastUnit, 1}, StepAction{Kind::kGradientReady, 1},
                          StepAction{Kind::kBackward, 0}, StepAction{Kind::kGradientReady, 0},
                          StepAction{Kind::kLoad, -1, 1}, StepAction{Kind::kForward, 0, 1},
                          StepAction{Kind::kBeginBackward, -1, 1},
                          StepAction{Kind::kLastUnit, 1, 1}, StepAction{Kind::kGradientReady, 1, 1},
                          StepAction{Kind::kBackward, 0, 1}, StepAction{Kind::kGradientReady, 0, 1},
                          StepAction{Kind::kEndStep}, StepAction{Kind::kCheckLoss, -1, 1}));
}

// What must hold in any step, for all shapes up to 4 units and 5 micro-batches.
TEST(StepPlanTest, EveryShapeKeepsTheOrderThatStrategiesAskFor) {
  for (int units = 1; units <= 4; ++units) {
    for (int micro_batches = 1; micro_batches <= 5; ++micro_batches) {
      for (const bool has_rows : {false, true}) {
        const std::vector<StepAction> plan = TrainingStepPlan(
            {.units = units, .has_rows = has_rows, .micro_batches = micro_batches});
        ASSERT_EQ(plan.front(), StepAction{Kind::kBeginStep});
        ASSERT_EQ(plan.back(), StepAction{Kind::kEndStep});
        size_t next = 1;
        for (int m = 0; m < micro_batches; ++m) {
          const bool last = m + 1 == micro_batches;
          std::vector<StepAction> expected = {{Kind::kLoad, -1, m}};
          if (has_rows) {
            expected.push_back({Kind::kPrefetchRows, -1, m});
            expected.push_back({Kind::kLookUpRows, -1, m});
          }
          const int last_unit = units - 1;
          for (int unit = 0; unit < last_unit; ++unit) {
            expected.push_back(Acquire(unit, Direction::kForward, m));
            expected.push_back({Kind::kForward, unit, m});
            expected.push_back(Release(unit, Direction::kForward, m));
          }
          expected.push_back(Acquire(last_unit, Direction::kBackward, m));
          expected.push_back({Kind::kBeginBackward, -1, m});
          expected.push_back({Kind::kLastUnit, last_unit, m});
          expected.push_back(Release(last_unit, Direction::kBackward, m));
          expected.push_back({Kind::kCheckLoss, -1, m});
          for (int unit = last_unit; unit >= 0; --unit) {
            if (unit < last_unit) {
              expected.push_back(Acquire(unit, Direction::kBackward, m));
              expected.push_back({Kind::kBackward, unit, m});
              expected.push_back(Release(unit, Direction::kBackward, m));
            }
            expected.push_back({last ? Kind::kSendGradients : Kind::kGradientReady, unit, m});
          }
          if (has_rows) expected.push_back({Kind::kPushRows, -1, m});
          ASSERT_LE(next + expected.size(), plan.size());
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(), plan.begin() + next))
              << units << " units, micro-batch " << m << " of " << micro_batches;
          next += expected.size();
        }
        ASSERT_EQ(next + 1, plan.size());
      }
    }
  }
}

TEST(StepPlanTest, EvaluationOnlyRunsForward) {
  EXPECT_THAT(EvaluationPlan(2, true),
              ElementsAre(StepAction{Kind::kPrefetchRows}, StepAction{Kind::kLookUpRows},
                          Acquire(0, Direction::kForward), StepAction{Kind::kForward, 0},
                          Release(0, Direction::kForward), Acquire(1, Direction::kForward),
                          StepAction{Kind::kForward, 1}, Release(1, Direction::kForward)));
}

std::vector<StepShape> SplitShapes() {
  std::vector<StepShape> shapes;
  for (int units = 1; units <= 4; ++units) {
    for (int micro_batches = 1; micro_batches <= 5; ++micro_batches) {
      for (const auto& [has_rows, scaled_loss] :
           {std::pair(false, false), {true, false}, {false, true}}) {
        shapes.push_back({.units = units,
                          .has_rows = has_rows,
                          .micro_batches = micro_batches,
                          .scaled_loss = scaled_loss,
                          .split_backward = true});
      }
    }
  }
  return shapes;
}

// Returns the place of an action that the plan has once.
size_t Place(const std::vector<StepAction>& plan, const StepAction& action) {
  EXPECT_EQ(std::count(plan.begin(), plan.end(), action), 1);
  return std::find(plan.begin(), plan.end(), action) - plan.begin();
}

TEST(StepPlanTest, WeightsOfASplitBackwardComeAfterAllInputsAndBeforeGradientsLeave) {
  for (const StepShape& shape : SplitShapes()) {
    const std::vector<StepAction> plan = TrainingStepPlan(shape);
    for (int m = 0; m < shape.micro_batches; ++m) {
      const bool last = m + 1 == shape.micro_batches;
      const Kind ready = last && !shape.scaled_loss ? Kind::kSendGradients : Kind::kGradientReady;
      size_t after = Place(plan, {Kind::kCheckLoss, -1, m});
      for (int unit = shape.units - 2; unit >= 0; --unit) {
        const size_t input = Place(plan, {Kind::kBackwardInput, unit, m});
        EXPECT_EQ(plan[input - 1], Acquire(unit, Direction::kBackward, m));
        EXPECT_EQ(plan[input + 1], Release(unit, Direction::kBackward, m));
        EXPECT_LT(after, input);
        after = input;
      }
      for (int unit = shape.units - 2; unit >= 0; --unit) {
        const size_t weights = Place(plan, {Kind::kBackwardWeights, unit, m});
        EXPECT_LT(after, weights);
        EXPECT_LT(weights, Place(plan, {ready, unit, m}));
        if (!last) {
          EXPECT_LT(weights, Place(plan, {Kind::kLoad, -1, m + 1}));
        }
      }
    }
  }
}

TEST(StepPlanTest, ASplitBackwardHasTheOtherActionsOfAWholeOne) {
  for (StepShape shape : SplitShapes()) {
    const auto others = [&](bool split_backward) {
      shape.split_backward = split_backward;
      std::vector<StepAction> plan = TrainingStepPlan(shape);
      std::erase_if(plan, [](const StepAction& action) {
        return action.kind == Kind::kBackward || action.kind == Kind::kBackwardInput ||
               action.kind == Kind::kBackwardWeights;
      });
      return plan;
    };
    EXPECT_THAT(others(true), UnorderedElementsAreArray(others(false)));
  }
}

}  // namespace
}  // namespace muster
