// Jobs on servers whose layers are divided among the stages of a pipeline: each stage pulls and
// pushes its own. They end in the bits of the same mesh without a pipeline, unless the head is tied
// to the embedding of another stage, and go on through losses.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/expected_traffic.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

using Shape = TensorShape;
using Parallelism = v1::ParallelismSpec;

TrainedValues Train(const v1::JobSpec& spec, const RunOptions& options = {}) {
  return SameOfAllRanks(TrainOnServers(spec, options));
}

class PipelineServersTest : public ::testing::TestWithParam<Shape> {
 protected:
  v1::JobSpec Job() {
    v1::JobSpec spec = PipelineJob(GetParam(), folder_);
    spec.mutable_stop()->set_steps(20);
    return spec;
  }

  // Expects what a pipeline comes to of what the same mesh comes to without one.
  static void ExpectSame(const TrainedValues& pipeline, const TrainedValues& without) {
    if (GetParam() == Shape::kGpt2) {
      ExpectClose(pipeline, without, 1e-5);
    } else {
      EXPECT_EQ(pipeline.values, without.values);
    }
  }

  const TempFolder folder_;
};

TEST_P(PipelineServersTest, TrainsAsTheSameMeshWithout) {
  const v1::JobSpec spec = Job();
  for (const auto& [data, tensor] : {std::pair<uint32_t, uint32_t>(1, 1), {2, 1}, {2, 2}}) {
    SCOPED_TRACE(absl::StrCat(data, " x ", tensor));
    const v1::JobSpec mesh = OnMesh(spec, tensor, data);
    const TrainedValues expected = Train(mesh);
    ExpectSame(Train(InPipeline(mesh, 2, Parallelism::ONE_F_ONE_B)), expected);
    if (tensor == 2) continue;
    ExpectSame(Train(InPipeline(mesh, 3, Parallelism::GPIPE)), expected);
    ExpectSame(Train(InPipeline(mesh, 4, Parallelism::ZERO_BUBBLE)), expected);
    ExpectSame(Train(InPipeline(mesh, 2, Parallelism::INTERLEAVED)), expected);
  }
  v1::JobSpec whole = OnMesh(spec, 1, 1);
  whole.clear_micro_batches();
  ExpectSame(Train(InPipeline(whole, 2, Parallelism::LAYER_WISE)), Train(whole));
}

TEST_P(PipelineServersTest, EndsInTheBitsOfAllReduce) {
  v1::JobSpec spec = Job();
  // Both roads measure it in an order of their own.
  spec.clear_clipping();
  for (const uint32_t data : {1, 2}) {
    SCOPED_TRACE(data);
    const v1::JobSpec job = InPipeline(OnMesh(spec, 2, data), 2, Parallelism::ONE_F_ONE_B);
    const TrainedValues by_all_reduce = SameOfAllRanks(TrainByAllReduce(ByAllReduce(job), {}));
    if (data == 1 || GetParam() != Shape::kGpt2) {
      EXPECT_EQ(Train(job).values, by_all_reduce.values);
    } else {
      // Servers add the parts of each data rank first.
      ExpectClose(Train(job), by_all_reduce, 1e-5);
    }
  }
}

// Dies before or after the call takes effect; its successor and its peers repeat the clock.
TEST_P(PipelineServersTest, ALostRankIsReplacedAndTheClockRepeated) {
  v1::JobSpec spec = InPipeline(OnMesh(Job(), 1, 2), 3, Parallelism::ONE_F_ONE_B);
  spec.mutable_stop()->set_steps(7);
  const TrainedValues expected = Train(spec);
  // Of both data ranks, all stages.
  for (const uint32_t slot : {0, 3, 4}) {
    for (const HookCall& at :
         {HookCall{Hook::kAcquire, 3, 1}, HookCall{Hook::kBeforeBackward, 4, 2},
          HookCall{Hook::kGradientReady, 4, 1}, HookCall{Hook::kEndStep, 5, 1},
          HookCall{Hook::kBeginStep, 6, 1}}) {
      for (const bool takes_effect : {false, true}) {
        SCOPED_TRACE(absl::StrCat("slot ", slot, ", step ", at.step, ", hook ",
                                  static_cast<int>(at.hook), ", ", takes_effect));
        RunOptions options;
        options.deaths = {{.slot = slot, .at = at, .takes_effect = takes_effect}};
        const RunResult run = TrainOnServers(spec, options);
        EXPECT_EQ(run.rounds, 2);
        EXPECT_EQ(SameOfAllRanks(run).values, expected.values);
      }
    }
  }
}

TEST_P(PipelineServersTest, CheckpointsGoOnOnOtherMeshesAndRoads) {
  v1::JobSpec spec = Job();
  spec.mutable_checkpoint()->set_every_steps(4);
  const TrainedValues expected = TrainLocally(spec);
  RunCheckpoints checkpoints;
  RunOptions options;
  options.checkpoints = &checkpoints;
  const v1::JobSpec pipeline = InPipeline(OnMesh(spec, 2, 1), 2, Parallelism::ONE_F_ONE_B);
  ExpectClose(Train(pipeline, options), expected, 1e-5);
  options.from = 4;
  ExpectClose(SameOfAllRanks(TrainByAllReduce(ByAllReduce(OnMesh(spec, 1, 2)), options)), expected,
              1e-5);
  options.from = 8;
  ExpectClose(Train(InPipeline(OnMesh(spec, 1, 2), 3, Parallelism::GPIPE), options), expected,
              1e-5);
  options.from = 12;
  ExpectClose(SameOfAllRanks(TrainByAllReduce(ByAllReduce(pipeline), options)), expected, 1e-5);
  options.from = 16;
  ExpectClose(Train(pipeline, options), expected, 1e-5);
}

TEST_P(PipelineServersTest, EvaluationsCountEachExampleOnce) {
  v1::JobSpec spec = Job();
  spec.mutable_stop()->set_steps(8);
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(4);
  const RunResult alone = TrainOnServers(OnMesh(spec, 1, 1), {});
  ASSERT_GT(alone.evaluated, 0u);
  const RunResult run =
      TrainOnServers(InPipeline(OnMesh(spec, 1, 2), 2, Parallelism::INTERLEAVED), {});
  ASSERT_NO_FATAL_FAILURE(ExpectEvaluationsOf(alone, run));
  EXPECT_GT(run.counters[0].stage_bytes_sent, 0u);
}

TEST_P(PipelineServersTest, BytesAlongEachAxisAreThosePredicted) {
  v1::JobSpec spec = Job();
  spec.mutable_stop()->set_steps(4);
  v1::JobSpec half = spec;
  if (GetParam() != Shape::kPerceptron) half.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  ExpectPredictedTraffic(InPipeline(OnMesh(spec, 1, 2), 3, Parallelism::ONE_F_ONE_B));
  ExpectPredictedTraffic(InPipeline(OnMesh(spec, 1, 1), 2, Parallelism::INTERLEAVED));
  ExpectPredictedTraffic(InPipeline(OnMesh(half, 2, 1), 2, Parallelism::ZERO_BUBBLE));
}

INSTANTIATE_TEST_SUITE_P(PipelineServers, PipelineServersTest,
                         ::testing::Values(Shape::kGpt2, Shape::kLlama, Shape::kPerceptron),
                         [](const auto& info) { return NameOf(info.param); });

// The scale doubles with each step until gradients overflow, on whatever stage; those steps are
// left out, also in a clock that is repeated after a loss.
class PipelineServersOverflowTest : public PipelineServersTest {};

TEST_P(PipelineServersOverflowTest, AllStagesGoOnWithOneLossScale) {
  v1::JobSpec spec = OnMesh(Job(), 1, 2);
  spec.mutable_compute()->set_type(v1::ComputeSpec::F16);
  spec.mutable_compute()->set_loss_scale_window(1);
  spec.mutable_stop()->set_steps(10);
  const TrainedValues without = Train(spec);
  spec = InPipeline(spec, 3, Parallelism::ONE_F_ONE_B);
  const RunResult undisturbed = TrainOnServers(spec, {});
  ExpectClose(SameOfAllRanks(undisturbed), without, 4e-3);
  const std::set<int> left_out = StepsLeftOut(spec, undisturbed);
  ASSERT_FALSE(left_out.empty());
  const int first = *left_out.begin();
  ASSERT_GT(first, 1);
  for (const int step : {first, first + 1}) {
    for (const uint32_t slot : {0, 3, 4}) {
      for (const HookCall& at :
           {HookCall{Hook::kGradientReady, step, 1}, HookCall{Hook::kEndStep, step, 1}}) {
        SCOPED_TRACE(
            absl::StrCat("slot ", slot, ", step ", step, ", hook ", static_cast<int>(at.hook)));
        RunOptions options;
        options.deaths = {{.slot = slot, .at = at, .takes_effect = true}};
        EXPECT_EQ(Train(spec, options).values, undisturbed.trained[0].values);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(PipelineServers, PipelineServersOverflowTest,
                         ::testing::Values(Shape::kGpt2, Shape::kLlama),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace muster
