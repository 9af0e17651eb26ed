#include "common/pipeline/pipeline_schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/pipeline/pipeline_simulator.h"
#include "common/pipeline/pipeline_timeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = PipelineAction::Kind;

constexpr int kMostStages = 16;
constexpr int kMostMicroBatches = 64;
constexpr int kMostChunks = 4;

std::string Name(const PipelineShape& shape) {
  return absl::StrCat("order ", static_cast<int>(shape.order), ", ", shape.stages, " stages of ",
                      shape.chunks, " chunks, ", shape.micro_batches, " micro-batches");
}

// Calls `check` for every shape of the order within the limits above.
void ForEach(PipelineOrder order, const std::function<void(const PipelineShape&)>& check) {
  const bool interleaved = order == PipelineOrder::kInterleaved;
  const int most = order == PipelineOrder::kLayerWise ? 1 : kMostMicroBatches;
  for (int stages = 1; stages <= kMostStages; ++stages) {
    for (int chunks = interleaved ? 2 : 1; chunks <= (interleaved ? kMostChunks : 1); ++chunks) {
      for (int m = interleaved ? stages : 1; m <= most; m += interleaved ? stages : 1) {
        check({order, stages, chunks, m});
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

class PipelineScheduleTest : public ::testing::TestWithParam<PipelineOrder> {
 protected:
  bool zero_bubble() const { return GetParam() == PipelineOrder::kZeroBubble; }
};

std::string NameOf(const testing::TestParamInfo<PipelineOrder>& info) {
  static constexpr const char* kNames[] = {"LayerWise", "GPipe", "OneForwardOneBackward",
                                           "Interleaved", "ZeroBubble"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Orders, PipelineScheduleTest,
                         ::testing::Values(PipelineOrder::kLayerWise, PipelineOrder::kGPipe,
                                           PipelineOrder::kOneForwardOneBackward,
                                           PipelineOrder::kInterleaved, PipelineOrder::kZeroBubble),
                         NameOf);

// Backward passes keep the order of micro-batches, so that sums have the same bits as without a
// pipeline.
TEST_P(PipelineScheduleTest, EachPassOfEachGroupIsMadeOnceAndBackwardInOrder) {
  ForEach(GetParam(), [&](const PipelineShape& shape) {
    for (const std::vector<PipelineAction>& actions : PipelineSchedule(shape)) {
      std::map<std::tuple<Kind, int>, std::vector<int>> passes;
      for (const PipelineAction& action : actions) {
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

// Returns the most micro-batches of groups between forward and the gradients of inputs.
int MostActivations(const PipelineShape& shape, int stage) {
  const auto [order, p, v, m] = shape;
  switch (order) {
    case PipelineOrder::kLayerWise:
      return 1;
    case PipelineOrder::kGPipe:
      return m;
    case PipelineOrder::kInterleaved:
      return std::min(v * m, 2 * (p - stage - 1) + (v - 1) * p + 1);
    case PipelineOrder::kOneForwardOneBackward:
    case PipelineOrder::kZeroBubble:
      break;
  }
  return std::min(m, p - stage);
}

// The first stage waits for its first gradient until 2 p - 1, and has not more than this to do
// before: so many forward passes as it may have activations. Zero bubble is idle for no longer.
double IdleTime(const PipelineShape& shape) {
  const int p = shape.stages;
  if (shape.order != PipelineOrder::kZeroBubble) return 3 * (p - 1);
  return 2 * p - 1 - std::min(p, shape.micro_batches);
}

TEST_P(PipelineScheduleTest, ActivationsAndIdleTimeAreAsComputeOrderSays) {
  ForEach(GetParam(), [&](const PipelineShape& shape) {
    const std::vector<std::vector<PipelineAction>> schedule = PipelineSchedule(shape);
    const PipelineTimeline timeline =
        TimelineOf(shape, std::vector<GroupTimes>(shape.groups()), /*transfer=*/0);
    const double work = 3.0 * shape.chunks * shape.micro_batches;
    ASSERT_EQ(timeline.length() - work, IdleTime(shape)) << Name(shape);
    for (int stage = 0; stage < shape.stages; ++stage) {
      const StageHoldings holdings = HoldingsOf(schedule[stage]);
      ASSERT_EQ(timeline.busy(stage), work) << Name(shape);
      ASSERT_EQ(holdings.activations, MostActivations(shape, stage)) << Name(shape);
      ASSERT_EQ(holdings.saved,
                zero_bubble() ? std::min(shape.micro_batches, shape.stages) : holdings.activations)
          << Name(shape);
      const bool interleaved = shape.order == PipelineOrder::kInterleaved;
      ASSERT_LE(holdings.received_activations, interleaved ? 2 : 1) << Name(shape);
      ASSERT_LE(holdings.received_gradients, interleaved ? std::max(2, shape.stages / 3 + 1) : 1)
          << Name(shape);
    }
  });
}

TEST(PipelineScheduleTest, NoStageOfZeroBubbleHoldsMoreThanTheFirstOf1F1B) {
  ForEach(PipelineOrder::kZeroBubble, [&](const PipelineShape& shape) {
    PipelineShape other = shape;
    other.order = PipelineOrder::kOneForwardOneBackward;
    const int most = HoldingsOf(PipelineSchedule(other)[0]).saved;
    for (const std::vector<PipelineAction>& actions : PipelineSchedule(shape)) {
      ASSERT_EQ(HoldingsOf(actions).saved, most) << Name(shape);
    }
  });
}

// Returns the buffers that the schedule asks for.
SimulatedPipeline Buffers(const std::vector<std::vector<PipelineAction>>& schedule) {
  SimulatedPipeline options;
  for (const std::vector<PipelineAction>& actions : schedule) {
    const StageHoldings holdings = HoldingsOf(actions);
    options.activation_buffers =
        std::max(options.activation_buffers, holdings.received_activations);
    options.gradient_buffers = std::max(options.gradient_buffers, holdings.received_gradients);
  }
  return options;
}

TEST_P(PipelineScheduleTest, EveryExecutionEndsWithOneOutputBuffer) {
  ForEach(GetParam(), [&](const PipelineShape& shape) {
    const std::vector<std::vector<PipelineAction>> schedule = PipelineSchedule(shape);
    SimulatedPipeline options = Buffers(schedule);
    options.seed = shape.groups() * 1000 + shape.micro_batches;
    options.longest_pass = 1 + static_cast<int>(options.seed % 7);
    options.longest_transfer = static_cast<int>(options.seed % 5);
    const absl::Status status = SimulatePipeline(shape, schedule, options);
    ASSERT_TRUE(status.ok()) << Name(shape) << ": " << status;
  });
}

TEST_P(PipelineScheduleTest, EveryExecutionEndsWhateverTheDelays) {
  const bool interleaved = GetParam() == PipelineOrder::kInterleaved;
  const int m = GetParam() == PipelineOrder::kLayerWise ? 1 : 8;
  for (const int stages : {2, 4}) {
    const PipelineShape shape = {GetParam(), stages, interleaved ? 3 : 1, m};
    const std::vector<std::vector<PipelineAction>> schedule = PipelineSchedule(shape);
    SimulatedPipeline options = Buffers(schedule);
    for (options.seed = 0; options.seed < 300; ++options.seed) {
      options.longest_pass = options.seed % 3 == 0 ? 1 : 20;
      options.longest_transfer = options.seed % 4 == 0 ? 60 : 3;
      options.output_buffers = options.seed % 2 == 0 ? 1 : 2;
      const absl::Status status = SimulatePipeline(shape, schedule, options);
      ASSERT_TRUE(status.ok()) << Name(shape) << ": " << status;
    }
  }
}

std::vector<std::vector<PipelineAction>> TwoStages() {
  return PipelineSchedule({PipelineOrder::kOneForwardOneBackward, 2, 1, 2});
}

TEST(PipelineScheduleTest, TheListsOfTwoStages) {
  EXPECT_THAT(
      TwoStages(),
      ElementsAre(
          ElementsAre(
              PipelineAction{Kind::kForward, 0, 0}, PipelineAction{Kind::kSendActivation, 0, 0, 1},
              PipelineAction{Kind::kForward, 0, 1}, PipelineAction{Kind::kSendActivation, 0, 1, 1},
              PipelineAction{Kind::kReceiveGradient, 0, 0, 1},
              PipelineAction{Kind::kBackward, 0, 0},
              PipelineAction{Kind::kReceiveGradient, 0, 1, 1},
              PipelineAction{Kind::kBackward, 0, 1}),
          ElementsAre(PipelineAction{Kind::kReceiveActivation, 0, 0, 0},
                      PipelineAction{Kind::kForward, 0, 0},
                      PipelineAction{Kind::kReceiveActivation, 0, 1, 0},
                      PipelineAction{Kind::kBackward, 0, 0},
                      PipelineAction{Kind::kSendGradient, 0, 0, 0},
                      PipelineAction{Kind::kForward, 0, 1}, PipelineAction{Kind::kBackward, 0, 1},
                      PipelineAction{Kind::kSendGradient, 0, 1, 0})));
}

TEST(PipelineScheduleTest, TheSimulatorFindsBrokenLists) {
  const PipelineShape shape = {PipelineOrder::kOneForwardOneBackward, 2, 1, 2};
  const struct {
    std::string what;
    std::function<void(std::vector<std::vector<PipelineAction>>&)> spoil;
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
    std::vector<std::vector<PipelineAction>> lists = TwoStages();
    one.spoil(lists);
    EXPECT_THAT(SimulatePipeline(shape, lists, {}).message(), HasSubstr(one.error)) << one.what;
  }
}

}  // namespace
}  // namespace muster
