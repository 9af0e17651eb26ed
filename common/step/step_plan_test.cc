#include "common/step/step_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "common/step/compute_order.h"
#include "common/step/stage_schedule.h"
#include "common/step/stage_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;
using Kind = ActionKind;

// Returns the stage of a step without a pipeline.
ModelStage Alone(int units, int micro_batches = 1,
                 StageOrder order = StageOrder::kOneForwardOneBackward) {
  return {.shape = {.order = order, .micro_batches = micro_batches}, .sizes = {units}};
}

StepAction Acquire(int unit, Direction direction, int micro_batch = 0) {
  return {Kind::kAcquire, unit, micro_batch, direction};
}

StepAction Release(int unit, Direction direction, int micro_batch = 0) {
  return {Kind::kRelease, unit, micro_batch, direction};
}

TEST(StepPlanTest, GradientsLeaveWhileEarlierUnitsStillCompute) {
  EXPECT_THAT(TrainingStepPlan(Alone(2), {.has_rows = true}),
              ElementsAre(StepAction{Kind::kBeginStep}, StepAction{Kind::kLoad},
                          StepAction{Kind::kPrefetchRows}, StepAction{Kind::kLookUpRows},
                          Acquire(0, Direction::kForward), StepAction{Kind::kForward, 0},
                          Release(0, Direction::kForward), Acquire(1, Direction::kBackward),
                          StepAction{Kind::kBeginBackward}, StepAction{Kind::kLastUnit, 1},
                          Release(1, Direction::kBackward), StepAction{Kind::kCheckLoss},
                          StepAction{Kind::kGradientReady, 1}, Acquire(0, Direction::kBackward),
                          StepAction{Kind::kBackward, 0}, Release(0, Direction::kBackward),
                          StepAction{Kind::kGradientReady, 0}, StepAction{Kind::kPushRows},
                          StepAction{Kind::kEndStep}));
}

TEST(StepPlanTest, ModelsWithoutTablesMoveNoRows) {
  EXPECT_THAT(TrainingStepPlan(Alone(1), {}),
              ElementsAre(StepAction{Kind::kBeginStep}, StepAction{Kind::kLoad},
                          Acquire(0, Direction::kBackward), StepAction{Kind::kBeginBackward},
                          StepAction{Kind::kLastUnit, 0}, Release(0, Direction::kBackward),
                          StepAction{Kind::kCheckLoss}, StepAction{Kind::kGradientReady, 0},
                          StepAction{Kind::kEndStep}));
}

// Returns the plan without the actions that the other tests hold to their places.
std::vector<StepAction> WithoutLifetimes(const ModelStage& stage, const StepTraits& traits) {
  std::vector<StepAction> plan = TrainingStepPlan(stage, traits);
  std::erase_if(plan, [](const StepAction& action) {
    return action.kind == Kind::kAcquire || action.kind == Kind::kRelease;
  });
  return plan;
}

// The strategy finds out whether scaled gradients overflowed, and may send them while earlier units
// compute.
TEST(StepPlanTest, CompleteGradientsAreCheckedUnlessTheStrategyOrADeviceDoes) {
  const ModelStage stage = Alone(2, 2);
  for (const int m : {0, 1}) {
    EXPECT_EQ(ChecksGradients(stage, {}, m), m == 1);
    EXPECT_TRUE(ChecksGradients(stage, {.sends_micro_batches = true}, m));
    EXPECT_FALSE(ChecksGradients(stage, {.scaled_loss = true, .sends_micro_batches = true}, m));
    EXPECT_FALSE(ChecksGradients(stage, {.sends_micro_batches = true, .on_device = true}, m));
  }
}

TEST(StepPlanTest, MicroBatchesRunOneAfterAnother) {
  EXPECT_THAT(
      WithoutLifetimes(Alone(2, 2), {.has_rows = true}),
      ElementsAre(StepAction{Kind::kBeginStep}, StepAction{Kind::kLoad},
                  StepAction{Kind::kPrefetchRows}, StepAction{Kind::kLookUpRows},
                  StepAction{Kind::kForward, 0}, StepAction{Kind::kBeginBackward},
                  StepAction{Kind::kLastUnit, 1}, StepAction{Kind::kCheckLoss},
                  StepAction{Kind::kGradientReady, 1}, StepAction{Kind::kBackward, 0},
                  StepAction{Kind::kGradientReady, 0}, StepAction{Kind::kPushRows},
                  StepAction{Kind::kLoad, -1, 1}, StepAction{Kind::kPrefetchRows, -1, 1},
                  StepAction{Kind::kLookUpRows, -1, 1}, StepAction{Kind::kForward, 0, 1},
                  StepAction{Kind::kBeginBackward, -1, 1}, StepAction{Kind::kLastUnit, 1, 1},
                  StepAction{Kind::kCheckLoss, -1, 1}, StepAction{Kind::kGradientReady, 1, 1},
                  StepAction{Kind::kBackward, 0, 1}, StepAction{Kind::kGradientReady, 0, 1},
                  StepAction{Kind::kPushRows, -1, 1}, StepAction{Kind::kEndStep}));
}

TEST(StepPlanTest, OfADeviceTheHostTakesTheLossAfterTheStepAndChecksNoGradients) {
  EXPECT_THAT(WithoutLifetimes(Alone(2, 2), {.on_device = true}),
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
TEST(StepPlanTest, OfADeviceTheHostTakesLoadsOfEveryStageAfterTheStep) {
  const auto results = [](int stage, bool has_experts) {
    const ModelStage of_two = {
        .shape = {.stages = 2, .micro_batches = 3}, .stage = stage, .sizes = {2, 2}};
    const std::vector<StepAction> plan =
        TrainingStepPlan(of_two, {.on_device = true, .has_experts = has_experts});
    const auto all = std::count_if(plan.begin(), plan.end(), [](const StepAction& action) {
      return action.kind == Kind::kCheckLoss;
    });
    EXPECT_EQ(all, plan.back().kind == Kind::kCheckLoss ? 1 : 0);
    return all;
  };
  EXPECT_EQ(results(0, false), 0);
  EXPECT_EQ(results(1, false), 1);
  EXPECT_EQ(results(0, true), 1);
  EXPECT_EQ(results(1, true), 1);
}

TEST(StepPlanTest, EveryShapeKeepsTheOrderThatStrategiesAskFor) {
  for (int units = 1; units <= 4; ++units) {
    for (int micro_batches = 1; micro_batches <= 5; ++micro_batches) {
      for (const bool has_rows : {false, true}) {
        const std::vector<StepAction> plan =
            TrainingStepPlan(Alone(units, micro_batches), {.has_rows = has_rows});
        ASSERT_EQ(plan.front(), StepAction{Kind::kBeginStep});
        ASSERT_EQ(plan.back(), StepAction{Kind::kEndStep});
        size_t next = 1;
        for (int m = 0; m < micro_batches; ++m) {
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
            expected.push_back({Kind::kGradientReady, unit, m});
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
  EXPECT_THAT(EvaluationPlan(Alone(2), true),
              ElementsAre(StepAction{Kind::kPrefetchRows}, StepAction{Kind::kLookUpRows},
                          Acquire(0, Direction::kForward), StepAction{Kind::kForward, 0},
                          Release(0, Direction::kForward), Acquire(1, Direction::kForward),
                          StepAction{Kind::kForward, 1}, Release(1, Direction::kForward)));
}

// Returns the place of an action that the plan has once.
size_t Place(const std::vector<StepAction>& plan, const StepAction& action) {
  EXPECT_EQ(std::count(plan.begin(), plan.end(), action), 1);
  return std::find(plan.begin(), plan.end(), action) - plan.begin();
}

// Calls `check` with units and micro-batches, with rows and without.
template <typename Check>
void ForEach(const Check& check) {
  for (int units = 1; units <= 4; ++units) {
    for (int micro_batches = 1; micro_batches <= 5; ++micro_batches) {
      for (const bool has_rows : {false, true}) check(units, micro_batches, has_rows);
    }
  }
}

TEST(StepPlanTest, WeightsOfASplitBackwardComeAfterAllInputsAndBeforeGradientsLeave) {
  ForEach([](int units, int micro_batches, bool has_rows) {
    const std::vector<StepAction> plan = TrainingStepPlan(
        Alone(units, micro_batches, StageOrder::kZeroBubble), {.has_rows = has_rows});
    for (int m = 0; m < micro_batches; ++m) {
      size_t after = Place(plan, {Kind::kCheckLoss, -1, m});
      for (int unit = units - 2; unit >= 0; --unit) {
        const size_t input = Place(plan, {Kind::kBackwardInput, unit, m});
        EXPECT_EQ(plan[input - 1], Acquire(unit, Direction::kBackward, m));
        EXPECT_EQ(plan[input + 1], Release(unit, Direction::kBackward, m));
        EXPECT_LT(after, input);
        after = input;
      }
      for (int unit = units - 2; unit >= 0; --unit) {
        const size_t weights = Place(plan, {Kind::kBackwardWeights, unit, m});
        EXPECT_LT(after, weights);
        EXPECT_LT(weights, Place(plan, {Kind::kGradientReady, unit, m}));
        if (m + 1 < micro_batches) {
          EXPECT_LT(weights, Place(plan, {Kind::kLoad, -1, m + 1}));
        }
      }
    }
  });
}

TEST(StepPlanTest, ASplitBackwardHasTheOtherActionsOfAWholeOne) {
  ForEach([](int units, int micro_batches, bool has_rows) {
    const auto others = [&](StageOrder order) {
      std::vector<StepAction> plan =
          TrainingStepPlan(Alone(units, micro_batches, order), {.has_rows = has_rows});
      std::erase_if(plan, [](const StepAction& action) {
        return action.kind == Kind::kBackward || action.kind == Kind::kBackwardInput ||
               action.kind == Kind::kBackwardWeights;
      });
      return plan;
    };
    EXPECT_THAT(others(StageOrder::kZeroBubble),
                UnorderedElementsAreArray(others(StageOrder::kOneForwardOneBackward)));
  });
}

TEST(StepPlanTest, GPipeRunsAllMicroBatchesForwardFirst) {
  const std::vector<StepAction> plan = TrainingStepPlan(Alone(2, 3, StageOrder::kGPipe), {});
  const auto first_backward = std::find_if(plan.begin(), plan.end(), [](const StepAction& action) {
    return action.kind == Kind::kBeginBackward;
  });
  EXPECT_EQ(std::count_if(plan.begin(), first_backward,
                          [](const StepAction& action) { return action.kind == Kind::kForward; }),
            3);
  EXPECT_EQ(
      std::max_element(plan.begin(), plan.end(),
                       [](const StepAction& a, const StepAction& b) { return a.saved < b.saved; })
          ->saved,
      2);
}

// Holds the plan of a stage to its list, and to what strategy.h asks for.
void CheckPlan(const StageShape& shape, int stage, const std::vector<int>& sizes) {
  const ModelStage part = {.shape = shape, .stage = stage, .sizes = sizes};
  const bool split = shape.order == StageOrder::kZeroBubble;
  const std::vector<StepAction> plan = TrainingStepPlan(part, {});
  const std::vector<StepAction> list = StageSchedules(shape)[stage];
  ASSERT_EQ(plan.front(), StepAction{Kind::kBeginStep});
  ASSERT_EQ(plan.back(), StepAction{Kind::kEndStep});
  // The micro-batch that was loaded last into each activation stash.
  std::map<int, int> loaded;
  std::map<std::pair<Kind, int>, int> next_of_unit;
  int most_saved = 0, messages = 0, begun = 0;
  for (const StepAction& action : plan) {
    most_saved = std::max(most_saved, action.saved + 1);
    messages += action.transfers();
    if (action.kind == Kind::kLoad) loaded[action.saved] = action.micro_batch;
    const bool reads_set = !action.receives() && action.kind != Kind::kBeginStep &&
                           action.kind != Kind::kFinishMessages && action.kind != Kind::kEndStep;
    if (reads_set) {
      ASSERT_EQ(loaded[action.saved], action.micro_batch);
    }
    if (action.kind == Kind::kBeginBackward) {
      ASSERT_EQ(action.micro_batch, begun++);
    }
    switch (action.kind) {
      case Kind::kForward:
      case Kind::kLastUnit:
      case Kind::kBackward:
      case Kind::kBackwardInput:
      case Kind::kBackwardWeights:
        // Every unit runs each micro-batch once, in order.
        ASSERT_EQ(action.micro_batch, (next_of_unit[{action.kind, action.unit}]++));
        break;
      default:
        break;
    }
  }
  for (const auto& [run, count] : next_of_unit) ASSERT_EQ(count, shape.micro_batches);
  int own_units = 0;
  for (int chunk = 0; chunk < shape.chunks; ++chunk)
    own_units += sizes[shape.VirtualStage(stage, chunk)];
  const bool has_last = stage + 1 == shape.stages;
  // Forward and backward of each; the last is one run. A split backward is two.
  ASSERT_EQ(next_of_unit.size(),
            static_cast<size_t>((own_units - has_last) * (split ? 3 : 2) + has_last));
  ASSERT_EQ(begun, shape.micro_batches);
  ASSERT_EQ(most_saved, HoldingsOf(list).saved);
  ASSERT_EQ(most_saved, MostActivationStashes(shape, stage));
  ASSERT_EQ(messages, std::count_if(list.begin(), list.end(),
                                    [](const StepAction& action) { return action.transfers(); }));
}

TEST(StepPlanTest, EveryStageRunsItsUnitsWithAsManyActivationStashesAsTheScheduleSays) {
  for (const auto order : {StageOrder::kGPipe, StageOrder::kOneForwardOneBackward,
                           StageOrder::kInterleaved, StageOrder::kZeroBubble}) {
    const bool interleaved = order == StageOrder::kInterleaved;
    for (int stages = 1; stages <= 5; ++stages) {
      for (int m = interleaved ? stages : 1; m <= 10; m += interleaved ? stages : 1) {
        const StageShape shape = {order, stages, interleaved ? 2 : 1, m};
        std::vector<int> sizes;
        for (int virtual_stage = 0; virtual_stage < shape.virtual_stages(); ++virtual_stage)
          sizes.push_back(1 + virtual_stage % 3);
        for (int stage = 0; stage < stages; ++stage) {
          CheckPlan(shape, stage, sizes);
          ASSERT_FALSE(HasFailure()) << "order " << static_cast<int>(order) << ", stage " << stage
                                     << " of " << stages << ", " << m << " micro-batches";
        }
      }
    }
  }
}

// A round of fewer data ranks has more micro-batches than the job says.
TEST(StepPlanTest, OneStageRunsMicroBatchesOneAfterAnotherHoweverManyTheJobHas) {
  ModelStage stage = StageOfJob(v1::JobSpec(), v1::TablesSchema(), /*units=*/2, /*stage=*/0);
  stage.shape.micro_batches = 3;
  std::vector<int> micro_batches;
  for (const StepAction& action : TrainingStepPlan(stage, {})) {
    if (action.kind == Kind::kEndStep) break;
    micro_batches.push_back(action.micro_batch);
    EXPECT_EQ(action.saved, 0) << "needs as much memory as one";
  }
  EXPECT_TRUE(std::is_sorted(micro_batches.begin(), micro_batches.end()));
  EXPECT_EQ(micro_batches.back(), 2);
}

}  // namespace
}  // namespace muster
