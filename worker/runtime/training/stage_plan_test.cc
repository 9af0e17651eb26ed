#include "worker/runtime/training/stage_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "common/pipeline/compute_order.h"
#include "common/pipeline/pipeline_action.h"
#include "common/pipeline/pipeline_schedule.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using Kind = StepAction::Kind;

// Holds the plan of a stage to its list, and to what strategy.h asks for.
void CheckPlan(const PipelineShape& shape, int stage, const std::vector<int>& sizes) {
  const PipelineStage part = {.shape = shape, .stage = stage, .sizes = sizes};
  const bool split = shape.order == PipelineOrder::kZeroBubble;
  const int units = std::accumulate(sizes.begin(), sizes.end(), 0);
  const std::vector<StepAction> plan = StageStepPlan(
      {.units = units, .micro_batches = shape.micro_batches, .split_backward = split}, part);
  const std::vector<PipelineAction> list = PipelineSchedule(shape)[stage];
  ASSERT_EQ(plan.front(), StepAction{Kind::kBeginStep});
  ASSERT_EQ(plan.back(), StepAction{Kind::kEndStep});
  // The micro-batch that was loaded last into each saved set.
  std::map<int, int> loaded;
  std::map<std::pair<Kind, int>, int> next_of_unit;
  int most_saved = 0, messages = 0, begun = 0;
  for (const StepAction& action : plan) {
    most_saved = std::max(most_saved, action.saved + 1);
    messages += action.travels();
    if (action.kind == Kind::kLoad) loaded[action.saved] = action.micro_batch;
    const bool reads_set = action.kind != Kind::kReceiveOutput &&
                           action.kind != Kind::kReceiveOutputGradient &&
                           action.kind != Kind::kBeginStep && action.kind != Kind::kEndStep;
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
  for (int chunk = 0; chunk < shape.chunks; ++chunk) own_units += sizes[shape.Group(stage, chunk)];
  const bool has_last = stage + 1 == shape.stages;
  // Forward and backward of each; the last is one run. A split backward is two.
  ASSERT_EQ(next_of_unit.size(),
            static_cast<size_t>((own_units - has_last) * (split ? 3 : 2) + has_last));
  ASSERT_EQ(begun, shape.micro_batches);
  ASSERT_EQ(most_saved, HoldingsOf(list).saved);
  ASSERT_EQ(most_saved, MostSavedSets(shape, stage));
  ASSERT_EQ(messages, std::count_if(list.begin(), list.end(), [](const PipelineAction& action) {
              return action.transfers();
            }));
}

TEST(StagePlanTest, EveryStageRunsItsUnitsWithAsManySavedSetsAsTheScheduleSays) {
  for (const auto order : {PipelineOrder::kGPipe, PipelineOrder::kOneForwardOneBackward,
                           PipelineOrder::kInterleaved, PipelineOrder::kZeroBubble}) {
    const bool interleaved = order == PipelineOrder::kInterleaved;
    for (int stages = 1; stages <= 5; ++stages) {
      for (int m = interleaved ? stages : 1; m <= 10; m += interleaved ? stages : 1) {
        const PipelineShape shape = {order, stages, interleaved ? 2 : 1, m};
        std::vector<int> sizes;
        for (int group = 0; group < shape.groups(); ++group) sizes.push_back(1 + group % 3);
        for (int stage = 0; stage < stages; ++stage) {
          CheckPlan(shape, stage, sizes);
          ASSERT_FALSE(HasFailure()) << "order " << static_cast<int>(order) << ", stage " << stage
                                     << " of " << stages << ", " << m << " micro-batches";
        }
      }
    }
  }
}

TEST(StagePlanTest, AStageAloneRunsThePlanOfTheWholeModel) {
  const StepShape shape = {.units = 3, .micro_batches = 2};
  const PipelineStage alone = {
      .shape = {PipelineOrder::kOneForwardOneBackward, 1, 1, 2}, .stage = 0, .sizes = {3}};
  EXPECT_EQ(StageStepPlan(shape, alone), TrainingStepPlan(shape));
}

}  // namespace
}  // namespace muster
