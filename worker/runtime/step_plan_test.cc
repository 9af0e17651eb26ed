#include "worker/runtime/step_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using Kind = StepAction::Kind;

TEST(StepPlanTest, GradientsLeaveWhileEarlierUnitsStillCompute) {
  EXPECT_THAT(TrainingStepPlan(2, true),
              ElementsAre(StepAction{Kind::kBeginStep}, StepAction{Kind::kLoad},
                          StepAction{Kind::kPrefetchRows}, StepAction{Kind::kLookUpRows},
                          StepAction{Kind::kForward, 0}, StepAction{Kind::kForward, 1},
                          StepAction{Kind::kBeginBackward}, StepAction{Kind::kBackward, 1},
                          StepAction{Kind::kSendGradients, 1}, StepAction{Kind::kBackward, 0},
                          StepAction{Kind::kSendGradients, 0}, StepAction{Kind::kPushRows},
                          StepAction{Kind::kEndStep}));
}

TEST(StepPlanTest, ModelsWithoutTablesMoveNoRows) {
  EXPECT_THAT(TrainingStepPlan(1, false),
              ElementsAre(StepAction{Kind::kBeginStep}, StepAction{Kind::kLoad},
                          StepAction{Kind::kForward, 0}, StepAction{Kind::kBeginBackward},
                          StepAction{Kind::kBackward, 0}, StepAction{Kind::kSendGradients, 0},
                          StepAction{Kind::kEndStep}));
}

TEST(StepPlanTest, EvaluationOnlyRunsForward) {
  EXPECT_THAT(EvaluationPlan(2, true),
              ElementsAre(StepAction{Kind::kLoad}, StepAction{Kind::kPrefetchRows},
                          StepAction{Kind::kLookUpRows}, StepAction{Kind::kForward, 0},
                          StepAction{Kind::kForward, 1}));
}

}  // namespace
}  // namespace muster
