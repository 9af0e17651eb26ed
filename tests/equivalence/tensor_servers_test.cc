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

class TensorServersTest : public ::testing::Test {
 protected:
  // Returns TensorJob in 20 steps.
  v1::JobSpec Job(Shape shape) {
    v1::JobSpec spec = TensorJob(shape, folder_);
    spec.mutable_stop()->set_steps(20);
    return spec;
  }

  // Loses ranks in steps around the first that overflows: in a quarter of all ways, in which any
  // two of stage, step, slot, hook and effect meet, or in the others.
  void ExpectOneLossScaleAfterLosses(bool chosen);

  const TempFolder folder_;
};

class EveryServedShapeTest : public TensorServersTest, public ::testing::WithParamInterface<Shape> {
 protected:
  // Loses ranks in a quarter of all ways, in which any two of stage, slot, hook and effect meet,
  // and which differs with the shape, or in the others.
  void ExpectLossesToBeRepaired(bool chosen);
};

TEST_P(EveryServedShapeTest, TrainsAsOneProcess) {
  v1::JobSpec spec = Job(GetParam());
  spec.set_micro_batches(2);
  spec.mutable_clipping()->set_by_global_norm(0.05);
  const TrainedValues expected = TrainLocally(spec);
  for (const uint32_t stage : {0, 3}) {
    SCOPED_TRACE(stage);
    ExpectClose(ValuesOnServers(OnMesh(spec, 2, 2, stage)), expected, 1e-5);
    ExpectClose(ValuesOnServers(OnMesh(spec, 4, 1, stage)), expected, 1e-5);
  }
  if (GetParam() == Shape::kPerceptron) return;
  // Tensor ranks share more of the activations, and so more gradients are parts.
  ExpectClose(ValuesOnServers(WithoutSequence(OnMesh(spec, 4, 2))), expected, 1e-5);
}

// Sums are made in the same order, and every element is in one block.
TEST_P(EveryServedShapeTest, EndsInTheBitsOfAllReduce) {
  const v1::JobSpec spec = Job(GetParam());
  for (const auto& [tensor, data] : {std::pair<uint32_t, uint32_t>(2, 2), {4, 2}, {2, 3}}) {
    SCOPED_TRACE(absl::StrCat(tensor, " x ", data));
    const TrainedValues expected =
        SameOfAllRanks(TrainByAllReduce(ByAllReduce(OnMesh(spec, tensor, data)), {}));
    EXPECT_EQ(ValuesOnServers(OnMesh(spec, tensor, data)).values, expected.values);
    EXPECT_EQ(ValuesOnServers(OnMesh(spec, tensor, data, 3)).values, expected.values);
  }
}

void EveryServedShapeTest::ExpectLossesToBeRepaired(bool chosen) {
  constexpr HookCall kCalls[] = {{Hook::kAcquire, 3, 2},
                                 {Hook::kGradientReady, 4, 2},
                                 {Hook::kEndStep, 5, 1},
                                 {Hook::kBeginStep, 6, 1}};
  const int shape = static_cast<int>(GetParam());
  for (const uint32_t stage : {0, 3}) {
    v1::JobSpec spec = OnMesh(Job(GetParam()), 2, 2, stage);
    spec.mutable_stop()->set_steps(8);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    const TrainedValues expected = ValuesOnServers(spec);
    for (const uint32_t slot : {0, 3}) {
      for (int call = 0; call < 4; ++call) {
        const HookCall& at = kCalls[call];
        for (const bool takes_effect : {false, true}) {
          const int of_stage = stage == 0 ? 0 : 1;
          const bool is_chosen = (slot == 3) == ((call + of_stage + shape) % 2 == 1) &&
                                 takes_effect == ((call / 2 + of_stage + shape / 2) % 2 == 1);
          if (is_chosen != chosen) continue;
          ExpectLossIsRepaired(spec, {slot, at, takes_effect}, expected);
        }
      }
    }
  }
}

// Dies before or after the call takes effect; its successor and its peers repeat the clock.
TEST_P(EveryServedShapeTest, ALostRankIsReplacedAndTheClockRepeated) {
  ExpectLossesToBeRepaired(/*chosen=*/true);
}

TEST_P(EveryServedShapeTest, ALostRankIsReplacedAndTheClockRepeatedExhaustive) {
  ExpectLossesToBeRepaired(/*chosen=*/false);
}

INSTANTIATE_TEST_SUITE_P(TensorServers, EveryServedShapeTest,
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

TEST_P(EveryServedShapeTest, RanksMoveWhatIsPredicted) {
  const v1::JobSpec spec = Job(GetParam());
  v1::JobSpec half = spec;
  half.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  std::vector<v1::JobSpec> specs = {spec};
  if (GetParam() != Shape::kPerceptron) specs.push_back(half);
  for (const v1::JobSpec& one : specs) ExpectPredictedTraffic(OnMesh(one, 2, 2));
}

TEST_F(TensorServersTest, OverflowsAreLeftOutByAllRanks) {
  const v1::JobSpec spec = InFloat16(Job(Shape::kLlama), 12);
  const TrainedValues expected = TrainLocally(spec);
  for (const uint32_t stage : {0, 3}) {
    const v1::JobSpec mesh = OnMesh(spec, 2, 2, stage);
    const RunResult run = TrainOnServers(mesh, {});
    EXPECT_FALSE(StepsLeftOut(mesh, run).empty()) << stage;
    ExpectClose(SameOfAllRanks(run), expected, 4e-3);
  }
}

void TensorServersTest::ExpectOneLossScaleAfterLosses(bool chosen) {
  v1::JobSpec job = InFloat16(Job(Shape::kLlama), 9);
  job.mutable_clipping()->set_by_global_norm(0.05);
  for (const uint32_t stage : {0, 3}) {
    const v1::JobSpec spec = OnMesh(job, 2, 2, stage);
    const RunResult undisturbed = TrainOnServers(spec, {});
    const std::set<int> left_out = StepsLeftOut(spec, undisturbed);
    ASSERT_FALSE(left_out.empty());
    const int first = *left_out.begin();
    const int steps[] = {1, first, first + 1};
    constexpr Hook kHooks[] = {Hook::kGradientReady, Hook::kEndStep, Hook::kBeginStep};
    for (int i = 0; i < 3; ++i) {
      const int step = steps[i];
      for (const uint32_t slot : {0, 3}) {
        for (int j = 0; j < 3; ++j) {
          const HookCall at = {kHooks[j], step, 1};
          for (const bool takes_effect : {false, true}) {
            const int of_stage = stage == 0 ? 0 : 1;
            const bool is_chosen = (slot == 3) == ((i + j + of_stage) % 2 == 1) &&
                                   takes_effect == ((i + of_stage) % 2 == 1);
            if (is_chosen != chosen) continue;
            ExpectLossIsRepaired(spec, {slot, at, takes_effect}, SameOfAllRanks(undisturbed));
          }
        }
      }
    }
  }
}

// In the step that overflows, and in those around it: with another scale, other steps would.
TEST_F(TensorServersTest, RanksGoOnWithOneLossScaleAfterALoss) {
  ExpectOneLossScaleAfterLosses(/*chosen=*/true);
}

TEST_F(TensorServersTest, RanksGoOnWithOneLossScaleAfterALossExhaustive) {
  ExpectOneLossScaleAfterLosses(/*chosen=*/false);
}

}  // namespace
}  // namespace muster
