// Tensor ranks whose parameters are on servers train as one process does, as they do by all-reduce,
// and through losses.
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/expected_traffic.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

using Shape = TensorShape;

TrainedValues Train(const v1::JobSpec& spec, const RunOptions& options = {}) {
  return SameOfAllRanks(TrainOnServers(spec, options));
}

class TensorServersTest : public ::testing::Test {
 protected:
  v1::JobSpec Job(Shape shape) { return TensorJob(shape, folder_); }

  const TempFolder folder_;
};

class EveryShapeTest : public TensorServersTest, public ::testing::WithParamInterface<Shape> {};

TEST_P(EveryShapeTest, TrainsAsOneProcess) {
  v1::JobSpec spec = Job(GetParam());
  spec.set_micro_batches(2);
  spec.mutable_clipping()->set_by_global_norm(0.05);
  const TrainedValues expected = TrainLocally(spec);
  for (const uint32_t stage : {0, 3}) {
    SCOPED_TRACE(stage);
    ExpectClose(Train(OnMesh(spec, 2, 2, stage)), expected, 1e-5);
    ExpectClose(Train(OnMesh(spec, 4, 1, stage)), expected, 1e-5);
  }
  if (GetParam() == Shape::kPerceptron) return;
  // Tensor ranks share more of the activations, and so more gradients are parts.
  ExpectClose(Train(WithoutSequence(OnMesh(spec, 4, 2))), expected, 1e-5);
}

// Sums are made in the same order, and every element is in one block.
TEST_P(EveryShapeTest, EndsInTheBitsOfAllReduce) {
  const v1::JobSpec spec = Job(GetParam());
  for (const auto& [tensor, data] : {std::pair<uint32_t, uint32_t>(2, 2), {4, 2}, {2, 3}}) {
    SCOPED_TRACE(absl::StrCat(tensor, " x ", data));
    const TrainedValues expected =
        SameOfAllRanks(TrainByAllReduce(ByAllReduce(OnMesh(spec, tensor, data)), {}));
    EXPECT_EQ(Train(OnMesh(spec, tensor, data)).values, expected.values);
    EXPECT_EQ(Train(OnMesh(spec, tensor, data, 3)).values, expected.values);
  }
}

// Dies before or after the call takes effect; its successor and its peers repeat the clock.
TEST_P(EveryShapeTest, ALostRankIsReplacedAndTheClockRepeated) {
  for (const uint32_t stage : {0, 3}) {
    v1::JobSpec spec = OnMesh(Job(GetParam()), 2, 2, stage);
    spec.mutable_stop()->set_steps(8);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    const TrainedValues expected = Train(spec);
    for (const uint32_t slot : {0, 3}) {
      for (const HookCall& at :
           {HookCall{Hook::kAcquire, 3, 2}, HookCall{Hook::kGradientReady, 4, 2},
            HookCall{Hook::kEndStep, 5, 1}, HookCall{Hook::kBeginStep, 6, 1}}) {
        for (const bool takes_effect : {false, true}) {
          SCOPED_TRACE(absl::StrCat("stage ", stage, ", slot ", slot, ", step ", at.step, ", ",
                                    takes_effect));
          RunOptions options;
          options.deaths = {{.slot = slot, .at = at, .takes_effect = takes_effect}};
          const RunResult run = TrainOnServers(spec, options);
          EXPECT_EQ(run.rounds, 2);
          EXPECT_EQ(SameOfAllRanks(run).values, expected.values);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TensorServers, EveryShapeTest,
                         ::testing::Values(Shape::kGpt2, Shape::kLlama, Shape::kPerceptron),
                         [](const auto& info) { return NameOf(info.param); });

TEST_F(TensorServersTest, EvaluationsCountEachExampleOnce) {
  v1::JobSpec spec = Job(Shape::kGpt2);
  spec.mutable_stop()->set_steps(8);
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(4);
  v1::JobSpec one = spec;
  one.set_workers(1);
  const RunResult alone = TrainOnServers(one, {});
  ASSERT_GT(alone.evaluated, 0u);
  for (const uint32_t stage : {0, 3}) {
    const RunResult run = TrainOnServers(OnMesh(spec, 2, 2, stage), {});
    ASSERT_NO_FATAL_FAILURE(ExpectEvaluationsOf(alone, run));
    EXPECT_GT(run.counters[0].tensor_bytes_sent, 0u);
  }
}

TEST_P(EveryShapeTest, RanksMoveWhatIsPredicted) {
  const v1::JobSpec spec = Job(GetParam());
  v1::JobSpec half = spec;
  half.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  std::vector<v1::JobSpec> specs = {spec};
  if (GetParam() != Shape::kPerceptron) specs.push_back(half);
  for (const v1::JobSpec& one : specs) ExpectPredictedTraffic(OnMesh(one, 2, 2));
}

// The scale doubles with each step until gradients overflow, on whatever rank; those steps are left
// out.
TEST_F(TensorServersTest, OverflowsAreLeftOutByAllRanks) {
  v1::JobSpec spec = Job(Shape::kLlama);
  spec.mutable_compute()->set_type(v1::ComputeSpec::F16);
  spec.mutable_compute()->set_loss_scale_window(1);
  spec.mutable_stop()->set_steps(12);
  const TrainedValues expected = TrainLocally(spec);
  for (const uint32_t stage : {0, 3}) {
    const v1::JobSpec mesh = OnMesh(spec, 2, 2, stage);
    const RunResult run = TrainOnServers(mesh, {});
    EXPECT_FALSE(StepsLeftOut(mesh, run).empty()) << stage;
    ExpectClose(SameOfAllRanks(run), expected, 4e-3);
  }
}

// In the step that overflows, and in those around it: with another scale, other steps would.
TEST_F(TensorServersTest, RanksGoOnWithOneLossScaleAfterALoss) {
  v1::JobSpec job = Job(Shape::kLlama);
  job.mutable_compute()->set_type(v1::ComputeSpec::F16);
  job.mutable_compute()->set_loss_scale_window(1);
  job.mutable_stop()->set_steps(9);
  job.mutable_clipping()->set_by_global_norm(0.05);
  for (const uint32_t stage : {0, 3}) {
    const v1::JobSpec spec = OnMesh(job, 2, 2, stage);
    const RunResult undisturbed = TrainOnServers(spec, {});
    const std::set<int> left_out = StepsLeftOut(spec, undisturbed);
    ASSERT_FALSE(left_out.empty());
    const int first = *left_out.begin();
    for (const int step : {1, first, first + 1}) {
      for (const uint32_t slot : {0, 3}) {
        for (const HookCall& at :
             {HookCall{Hook::kGradientReady, step, 1}, HookCall{Hook::kEndStep, step, 1},
              HookCall{Hook::kBeginStep, step, 1}}) {
          for (const bool takes_effect : {false, true}) {
            SCOPED_TRACE(absl::StrCat("stage ", stage, ", slot ", slot, ", step ", step, ", hook ",
                                      static_cast<int>(at.hook), ", ", takes_effect));
            RunOptions options;
            options.deaths = {{.slot = slot, .at = at, .takes_effect = takes_effect}};
            EXPECT_EQ(Train(spec, options).values, SameOfAllRanks(undisturbed).values);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace muster
