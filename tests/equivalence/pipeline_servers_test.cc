// Jobs on servers whose layers are divided among the stages of a pipeline: each stage pulls and
// pushes its own. They end in the bits of the same mesh without a pipeline, unless the head is tied
// to the embedding of another stage, and go on through losses.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

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

  // Trains on each mesh in half of the schedules, which differ with the mesh and the shape, or in
  // the others.
  void ExpectTheSameMeshWithout(bool chosen);
  // Loses ranks in a third of all ways, in which any two of slot, hook and effect meet, or in the
  // others. All shapes together have every way among their chosen ones.
  void ExpectLossesToBeRepaired(bool chosen);

  const TempFolder folder_;
};

void PipelineServersTest::ExpectTheSameMeshWithout(bool chosen) {
  struct Schedule {
    uint32_t stages;
    Parallelism::PipelineSchedule schedule;
  };
  constexpr Schedule kSchedules[] = {{2, Parallelism::ONE_F_ONE_B},
                                     {3, Parallelism::GPIPE},
                                     {4, Parallelism::ZERO_BUBBLE},
                                     {2, Parallelism::INTERLEAVED}};
  v1::JobSpec spec = Job();
  spec.mutable_stop()->set_steps(10);
  for (const uint32_t data : {1, 2}) {
    SCOPED_TRACE(data);
    const v1::JobSpec mesh = OnMesh(spec, /*tensor=*/1, data);
    const TrainedValues expected = ValuesOnServers(mesh);
    for (size_t i = 0; i < std::size(kSchedules); ++i) {
      if (((i + data + static_cast<size_t>(GetParam())) % 2 == 0) != chosen) continue;
      ExpectSame(ValuesOnServers(InPipeline(mesh, kSchedules[i].stages, kSchedules[i].schedule)),
                 expected);
    }
  }
}

TEST_P(PipelineServersTest, TrainsAsTheSameMeshWithout) {
  ExpectTheSameMeshWithout(/*chosen=*/true);
  v1::JobSpec spec = Job();
  spec.mutable_stop()->set_steps(10);
  const v1::JobSpec mesh = OnMesh(spec, 2, 2);
  ExpectSame(ValuesOnServers(InPipeline(mesh, 2, Parallelism::ONE_F_ONE_B)), ValuesOnServers(mesh));
  v1::JobSpec whole = OnMesh(spec, 1, 1);
  whole.clear_micro_batches();
  ExpectSame(ValuesOnServers(InPipeline(whole, 2, Parallelism::LAYER_WISE)),
             ValuesOnServers(whole));
}

TEST_P(PipelineServersTest, TrainsAsTheSameMeshWithoutExhaustive) {
  ExpectTheSameMeshWithout(/*chosen=*/false);
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
      EXPECT_EQ(ValuesOnServers(job).values, by_all_reduce.values);
    } else {
      // Servers add the parts of each data rank first.
      ExpectClose(ValuesOnServers(job), by_all_reduce, 1e-5);
    }
  }
}

void PipelineServersTest::ExpectLossesToBeRepaired(bool chosen) {
  // Of both data ranks, all stages.
  constexpr uint32_t kSlots[] = {0, 3, 4};
  constexpr HookCall kCalls[] = {{Hook::kAcquire, 3, 1},
                                 {Hook::kBeforeBackward, 4, 2},
                                 {Hook::kGradientReady, 4, 1},
                                 {Hook::kEndStep, 5, 1},
                                 {Hook::kBeginStep, 6, 1}};
  v1::JobSpec spec = InPipeline(OnMesh(Job(), 1, 2), 3, Parallelism::ONE_F_ONE_B);
  spec.mutable_stop()->set_steps(7);
  const TrainedValues expected = ValuesOnServers(spec);
  for (int i = 0; i < 3; ++i) {
    const uint32_t slot = kSlots[i];
    for (int call = 0; call < 5; ++call) {
      const HookCall& at = kCalls[call];
      for (const bool takes_effect : {false, true}) {
        const int turn = call + (takes_effect ? 1 : 0) + static_cast<int>(GetParam());
        if ((i == turn % 3) != chosen) continue;
        ExpectLossIsRepaired(spec, {slot, at, takes_effect}, expected);
      }
    }
  }
}

// Dies before or after the call takes effect; its successor and its peers repeat the clock.
TEST_P(PipelineServersTest, ALostRankIsReplacedAndTheClockRepeated) {
  ExpectLossesToBeRepaired(/*chosen=*/true);
}

TEST_P(PipelineServersTest, ALostRankIsReplacedAndTheClockRepeatedExhaustive) {
  ExpectLossesToBeRepaired(/*chosen=*/false);
}

TEST_P(PipelineServersTest, CheckpointsGoOnOnOtherMeshesAndRoads) {
  v1::JobSpec spec = Job();
  spec.mutable_checkpoint()->set_every_steps(4);
  const TrainedValues expected = TrainLocally(spec);
  RunCheckpoints checkpoints;
  RunOptions options;
  options.checkpoints = &checkpoints;
  const v1::JobSpec pipeline = InPipeline(OnMesh(spec, 2, 1), 2, Parallelism::ONE_F_ONE_B);
  ExpectClose(ValuesOnServers(pipeline, options), expected, 1e-5);
  options.from = 4;
  ExpectClose(SameOfAllRanks(TrainByAllReduce(ByAllReduce(OnMesh(spec, 1, 2)), options)), expected,
              1e-5);
  options.from = 8;
  ExpectClose(ValuesOnServers(InPipeline(OnMesh(spec, 1, 2), 3, Parallelism::GPIPE), options),
              expected, 1e-5);
  options.from = 12;
  ExpectClose(SameOfAllRanks(TrainByAllReduce(ByAllReduce(pipeline), options)), expected, 1e-5);
  options.from = 16;
  ExpectClose(ValuesOnServers(pipeline, options), expected, 1e-5);
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

// Steps that overflow are left out, also in a clock that is repeated after a loss.
class PipelineServersOverflowTest : public PipelineServersTest {
 protected:
  // Loses each slot in each step, at one of the hooks, or at the other.
  void ExpectOneLossScale(bool chosen);
};

void PipelineServersOverflowTest::ExpectOneLossScale(bool chosen) {
  v1::JobSpec spec = InFloat16(OnMesh(Job(), 1, 2), 10);
  const TrainedValues without = ValuesOnServers(spec);
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
        const int turn = step - first + static_cast<int>(slot) + static_cast<int>(GetParam());
        if ((at.hook == (turn % 2 == 0 ? Hook::kGradientReady : Hook::kEndStep)) != chosen)
          continue;
        ExpectLossIsRepaired(spec, {slot, at, /*takes_effect=*/true}, undisturbed.trained[0]);
      }
    }
  }
}

TEST_P(PipelineServersOverflowTest, AllStagesGoOnWithOneLossScale) {
  ExpectOneLossScale(/*chosen=*/true);
}

TEST_P(PipelineServersOverflowTest, AllStagesGoOnWithOneLossScaleExhaustive) {
  ExpectOneLossScale(/*chosen=*/false);
}

INSTANTIATE_TEST_SUITE_P(PipelineServers, PipelineServersOverflowTest,
                         ::testing::Values(Shape::kGpt2, Shape::kLlama),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace muster
