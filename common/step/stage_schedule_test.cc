#include "common/step/stage_schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/step/stage_simulator_for_testing.h"
#include "common/step/step_timeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = ActionKind;

constexpr int kMostStages = 16;
constexpr int kMostMicroBatches = 64;
constexpr int kMostChunks = 4;

std::string Name(const StageShape& shape) {
  return absl::StrCat("order ", static_cast<int>(shape.order), ", ", shape.stages, " stages of ",
                      shape.chunks, " chunks, ", shape.micro_batches, " micro-batches");
}

// Calls `check` for every shape of the order within the limits above.
void ForEach(StageOrder order, const std::function<void(const StageShape&)>& check) {
  const bool interleaved = order == StageOrder::kInterleaved;
  const int most = order == StageOrder::kLayerWise ? 1 : kMostMicroBatches;
  for (int stages = 1; stages <= kMostStages; ++stages) {
    for (int chunks = interleaved ? 2 : 1; chunks <= (interleaved ? kMostChunks : 1); ++chunks) {
      for (int m = interleaved ? stages : 1; m <= most; m += interleaved ? stages : 1) {
        check({order, stages, chunks, m});
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

class StageScheduleTest : public ::testing::TestWithParam<StageOrder> {
 protected:
  bool zero_bubble() const { return GetParam() == StageOrder::kZeroBubble; }
};

std::string NameOf(const testing::TestParamInfo<StageOrder>& info) {
  static constexpr const char* kNames[] = {"LayerWise", "GPipe", "OneForwardOneBackward",
                                           "Interleaved", "ZeroBubble"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Orders, StageScheduleTest,
                         ::testing::Values(StageOrder::kLayerWise, StageOrder::kGPipe,
                                           StageOrder::kOneForwardOneBackward,
                                           StageOrder::kInterleaved, StageOrder::kZeroBubble),
                         NameOf);

// Backward passes keep the order of micro-batches, so that sums have the same bits as without a
// pipeline.
TEST_P(StageScheduleTest, EachPassOfEachGroupIsMadeOnceAndBackwardInOrder) {
  ForEach(GetParam(), [&](const StageShape& shape) {
    for (const std::vector<StepAction>& actions : StageSchedules(shape)) {
      std::map<std::tuple<Kind, int>, std::vector<int>> passes;
      for (const StepAction& action : actions) {
        if (action.transfers()) continue;
        passes[{action.kind, action.chunk}].push_back(action.micro_batch);
      }
      std::vector<int> all;
      for (int m = 0; m < shape.micro_batches; ++m) all.push_back(m);
      std::map<std::tuple<Kind, int>, std::vector<int>> expected;
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        expected[{Kind::kForward, chunk}] = all;
        if (zero_bubble()) {
          expected[{Kind::kBackwardInput, chunk}] = all;
          expected[{Kind::kBackwardWeights, chunk}] = all;
        } else {
          expected[{Kind::kBackward, chunk}] = all;
        }
      }
      ASSERT_EQ(passes, expected) << Name(shape);
    }
  });
}

// Returns the most micro-batches of virtual stages between forward and the gradients of inputs.
int MostActivations(const StageShape& shape, int stage) {
  const auto [order, p, v, m] = shape;
  switch (order) {
    case StageOrder::kLayerWise:
      return 1;
    case StageOrder::kGPipe:
      return m;
    case StageOrder::kInterleaved:
      return std::min(v * m, 2 * (p - stage - 1) + (v - 1) * p + 1);
    case StageOrder::kOneForwardOneBackward:
    case StageOrder::kZeroBubble:
      break;
  }
  return std::min(m, p - stage);
}

// The first stage waits for its first gradient until 2 p - 1, and has not more than this to do
// before: so many forward passes as it may have activations. Zero bubble is idle for no longer.
double IdleTime(const StageShape& shape) {
  const int p = shape.stages;
  if (shape.order != StageOrder::kZeroBubble) return 3 * (p - 1);
  return 2 * p - 1 - std::min(p, shape.micro_batches);
}

TEST_P(StageScheduleTest, ActivationsAndIdleTimeAreAsComputeOrderSays) {
  ForEach(GetParam(), [&](const StageShape& shape) {
    const std::vector<std::vector<StepAction>> schedule = StageSchedules(shape);
    const StepTimeline timeline =
        TimelineOf(shape, std::vector<VirtualStageTimes>(shape.virtual_stages()), /*transfer=*/0);
    const double work = 3.0 * shape.chunks * shape.micro_batches;
    ASSERT_EQ(timeline.length() - work, IdleTime(shape)) << Name(shape);
    for (int stage = 0; stage < shape.stages; ++stage) {
      const StageHoldings holdings = HoldingsOf(schedule[stage]);
      ASSERT_EQ(timeline.busy(stage), work) << Name(shape);
      ASSERT_EQ(holdings.activations, MostActivations(shape, stage)) << Name(shape);
      ASSERT_EQ(holdings.saved,
                zero_bubble() ? std::min(shape.micro_batches, shape.stages) : holdings.activations)
          << Name(shape);
      const bool interleaved = shape.order == StageOrder::kInterleaved;
      ASSERT_LE(holdings.received_activations, interleaved ? 2 : 1) << Name(shape);
      ASSERT_LE(holdings.received_gradients, interleaved ? std::max(2, shape.stages / 3 + 1) : 1)
          << Name(shape);
    }
  });
}

TEST(StageScheduleTest, NoStageOfZeroBubbleHoldsMoreThanTheFirstOf1F1B) {
  ForEach(StageOrder::kZeroBubble, [&](const StageShape& shape) {
    StageShape other = shape;
    other.order = StageOrder::kOneForwardOneBackward;
    const int most = HoldingsOf(StageSchedules(other)[0]).saved;
    for (const std::vector<StepAction>& actions : StageSchedules(shape)) {
      ASSERT_EQ(HoldingsOf(actions).saved, most) << Name(shape);
    }
  });
}

// Returns the buffers that the schedule asks for.
SimulatedStages Buffers(const std::vector<std::vector<StepAction>>& schedule) {
  SimulatedStages options;
  for (const std::vector<StepAction>& actions : schedule) {
    const StageHoldings holdings = HoldingsOf(actions);
    options.activation_buffers =
        std::max(options.activation_buffers, holdings.received_activations);
    options.gradient_buffers = std::max(options.gradient_buffers, holdings.received_gradients);
  }
  return options;
}

TEST_P(StageScheduleTest, EveryExecutionEndsWithOneOutputBuffer) {
  ForEach(GetParam(), [&](const StageShape& shape) {
    const std::vector<std::vector<StepAction>> schedule = StageSchedules(shape);
    SimulatedStages options = Buffers(schedule);
    options.seed = shape.virtual_stages() * 1000 + shape.micro_batches;
    options.longest_pass = 1 + static_cast<int>(options.seed % 7);
    options.longest_transfer = static_cast<int>(options.seed % 5);
    const absl::Status status = SimulateStages(shape, schedule, options);
    ASSERT_TRUE(status.ok()) << Name(shape) << ": " << status;
  });
}

TEST_P(StageScheduleTest, EveryExecutionEndsWhateverTheDelays) {
  const bool interleaved = GetParam() == StageOrder::kInterleaved;
  const int m = GetParam() == StageOrder::kLayerWise ? 1 : 8;
  for (const int stages : {2, 4}) {
    const StageShape shape = {GetParam(), stages, interleaved ? 3 : 1, m};
    const std::vector<std::vector<StepAction>> schedule = StageSchedules(shape);
    SimulatedStages options = Buffers(schedule);
    for (options.seed = 0; options.seed < 300; ++options.seed) {
      options.longest_pass = options.seed % 3 == 0 ? 1 : 20;
      options.longest_transfer = options.seed % 4 == 0 ? 60 : 3;
      options.output_buffers = options.seed % 2 == 0 ? 1 : 2;
      const absl::Status status = SimulateStages(shape, schedule, options);
      ASSERT_TRUE(status.ok()) << Name(shape) << ": " << status;
    }
  }
}

std::vector<std::vector<StepAction>> TwoStages() {
  return StageSchedules({StageOrder::kOneForwardOneBackward, 2, 1, 2});
}

TEST(StageScheduleTest, TheListsOfTwoStages) {
  const auto pass = [](Kind kind, int micro_batch) {
    return StepAction{.kind = kind, .micro_batch = micro_batch};
  };
  const auto transfer = [](Kind kind, int micro_batch, int peer) {
    return StepAction{.kind = kind, .micro_batch = micro_batch, .peer = peer};
  };
  EXPECT_THAT(
      TwoStages(),
      ElementsAre(ElementsAre(pass(Kind::kForward, 0), transfer(Kind::kSendActivation, 0, 1),
                              pass(Kind::kForward, 1), transfer(Kind::kSendActivation, 1, 1),
                              transfer(Kind::kReceiveGradient, 0, 1), pass(Kind::kBackward, 0),
                              transfer(Kind::kReceiveGradient, 1, 1), pass(Kind::kBackward, 1)),
                  ElementsAre(transfer(Kind::kReceiveActivation, 0, 0), pass(Kind::kForward, 0),
                              transfer(Kind::kReceiveActivation, 1, 0), pass(Kind::kBackward, 0),
                              transfer(Kind::kSendGradient, 0, 0), pass(Kind::kForward, 1),
                              pass(Kind::kBackward, 1), transfer(Kind::kSendGradient, 1, 0))));
}

TEST(StageScheduleTest, TheSimulatorFindsBrokenLists) {
  const StageShape shape = {StageOrder::kOneForwardOneBackward, 2, 1, 2};
  const struct {
    std::string what;
    std::function<void(std::vector<std::vector<StepAction>>&)> spoil;
    std::string error;
  } cases[] = {
      // The other stage sends the gradient after it has received the second input.
      {"a receive that is waited for too early",
       [](auto& lists) {
         std::rotate(lists[0].begin() + 2, lists[0].begin() + 4, lists[0].begin() + 5);
       },
       "deadlock"},
      {"a receive too early", [](auto& lists) { std::swap(lists[1][1], lists[1][2]); },
       "all 1 buffers are taken"},
      {"a send before its pass", [](auto& lists) { std::swap(lists[0][0], lists[0][1]); },
       "not made yet"},
      {"backward before forward", [](auto& lists) { std::swap(lists[1][5], lists[1][6]); },
       "its forward was not"},
      {"a send that is missing", [](auto& lists) { lists[1].pop_back(); }, "deadlock"},
      {"a wrong peer", [](auto& lists) { lists[0][1].peer = 0; }, "wrong peer"},
      {"a pass that is made twice", [](auto& lists) { lists[0].push_back(lists[0].back()); },
       "done before"},
  };
  for (const auto& one : cases) {
    std::vector<std::vector<StepAction>> lists = TwoStages();
    one.spoil(lists);
    EXPECT_THAT(SimulateStages(shape, lists, {}).message(), HasSubstr(one.error)) << one.what;
  }
}

}  // namespace
}  // namespace muster
