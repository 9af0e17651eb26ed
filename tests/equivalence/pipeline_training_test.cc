// Jobs whose layers are divided among the stages of a pipeline train as the same mesh does without
// one: to the bit, unless the head is tied to the embedding of another stage. Their checkpoints go
// on on any other mesh.
#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
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

// The number of a stage's replicas and of its tensor ranks, and ZeRO's stage.
struct StageMesh {
  uint32_t data = 1;
  uint32_t tensor = 1;
  uint32_t zero = 0;
  // Data ranks of a shard group; 0: all.
  uint32_t shard = 0;
};

v1::JobSpec On(const v1::JobSpec& spec, const StageMesh& mesh) {
  return OnMesh(spec, mesh.tensor, mesh.data, mesh.zero, mesh.shard);
}

class PipelineTrainingTest : public ::testing::Test {
 protected:
  // Returns PipelineJob by all-reduce, in 20 steps.
  v1::JobSpec Job(Shape shape, uint32_t blocks = 3) {
    v1::JobSpec spec = ByAllReduce(PipelineJob(shape, folder_, blocks));
    spec.mutable_update()->set_first_bucket_bytes(64);
    spec.mutable_update()->set_bucket_bytes(500);
    spec.mutable_stop()->set_steps(20);
    return spec;
  }

  // Expects what a pipeline comes to of what the same mesh comes to without one.
  static void ExpectSame(Shape shape, const TrainedValues& pipeline, const TrainedValues& without,
                         double tolerance = 1e-5) {
    if (shape == Shape::kGpt2) {
      ExpectClose(pipeline, without, tolerance);
    } else {
      EXPECT_EQ(pipeline.values, without.values);
    }
  }

  // Loses each slot at each hook, before it takes effect or afterwards, which differs with the
  // slot, the step and the shape; or in the other of these ways.
  void ExpectStateOfPeers(bool chosen);

  const TempFolder folder_;
};

using Order = std::tuple<Parallelism::PipelineSchedule, uint32_t>;
using ShapeInOrder = std::tuple<Shape, Order>;

class EveryOrderTest : public PipelineTrainingTest,
                       public ::testing::WithParamInterface<ShapeInOrder> {
 protected:
  static Shape shape() { return std::get<0>(GetParam()); }
  static v1::JobSpec InPipeline(const v1::JobSpec& spec) {
    const auto [schedule, stages] = std::get<1>(GetParam());
    return muster::InPipeline(spec, stages, schedule);
  }
  static bool Overlaps() {
    const auto schedule = std::get<0>(std::get<1>(GetParam()));
    return schedule == Parallelism::INTERLEAVED || schedule == Parallelism::ZERO_BUBBLE;
  }
};

TEST_P(EveryOrderTest, TrainsAsTheSameMeshWithout) {
  v1::JobSpec spec = Job(shape());
  if (std::get<0>(std::get<1>(GetParam())) == Parallelism::LAYER_WISE) spec.clear_micro_batches();
  for (const uint32_t data : {1, 2}) {
    SCOPED_TRACE(data);
    const v1::JobSpec mesh = On(spec, {.data = data});
    ExpectSame(shape(), ValuesByAllReduce(InPipeline(mesh)), ValuesByAllReduce(mesh));
  }
}

TEST_P(EveryOrderTest, GradientsAreThoseOfTheSameMeshWithout) {
  v1::JobSpec spec = ForGradients(Job(shape()));
  if (std::get<0>(std::get<1>(GetParam())) == Parallelism::LAYER_WISE) spec.clear_micro_batches();
  const v1::JobSpec mesh = On(spec, {.data = 2});
  ExpectSame(shape(), ValuesByAllReduce(InPipeline(mesh)), ValuesByAllReduce(mesh), 1e-6);
}

TEST_P(EveryOrderTest, EveryStageOfZeroEndsInTheSameBits) {
  v1::JobSpec spec = Job(shape());
  if (std::get<0>(std::get<1>(GetParam())) == Parallelism::LAYER_WISE) spec.clear_micro_batches();
  for (const uint32_t zero : {1, 2, 3}) {
    if (zero >= 2 && Overlaps()) continue;
    SCOPED_TRACE(zero);
    const v1::JobSpec mesh = On(spec, {.data = 2, .zero = zero});
    ExpectSame(shape(), ValuesByAllReduce(InPipeline(mesh)), ValuesByAllReduce(mesh));
  }
}

// Returns each order with each shape: those chosen, which have every schedule with every shape and
// every order with some, or the others.
std::vector<ShapeInOrder> ShapesInOrders(bool chosen) {
  const std::vector<ShapeInOrder> left_out = {
      {Shape::kLlama, {Parallelism::ONE_F_ONE_B, 2}},
      {Shape::kPerceptron, {Parallelism::ONE_F_ONE_B, 2}},
      {Shape::kGpt2, {Parallelism::ONE_F_ONE_B, 3}},
      {Shape::kPerceptron, {Parallelism::ONE_F_ONE_B, 3}},
      {Shape::kGpt2, {Parallelism::ONE_F_ONE_B, 4}},
      {Shape::kLlama, {Parallelism::ONE_F_ONE_B, 4}},
      {Shape::kLlama, {Parallelism::ZERO_BUBBLE, 2}},
      {Shape::kPerceptron, {Parallelism::ZERO_BUBBLE, 2}},
      {Shape::kGpt2, {Parallelism::ZERO_BUBBLE, 4}},
  };
  if (!chosen) return left_out;
  std::vector<ShapeInOrder> cases;
  for (const Shape shape : {Shape::kGpt2, Shape::kLlama, Shape::kPerceptron}) {
    for (const Order& order :
         {Order{Parallelism::LAYER_WISE, 2}, Order{Parallelism::GPIPE, 3},
          Order{Parallelism::ONE_F_ONE_B, 2}, Order{Parallelism::ONE_F_ONE_B, 3},
          Order{Parallelism::ONE_F_ONE_B, 4}, Order{Parallelism::INTERLEAVED, 2},
          Order{Parallelism::ZERO_BUBBLE, 2}, Order{Parallelism::ZERO_BUBBLE, 4}}) {
      const ShapeInOrder one(shape, order);
      if (std::count(left_out.begin(), left_out.end(), one) == 0) cases.push_back(one);
    }
  }
  return cases;
}

std::string NameOfOrder(const ::testing::TestParamInfo<ShapeInOrder>& info) {
  const auto& [shape, order] = info.param;
  return absl::StrCat(NameOf(shape), "_", Parallelism::PipelineSchedule_Name(std::get<0>(order)),
                      "_", std::get<1>(order));
}

INSTANTIATE_TEST_SUITE_P(PipelineTraining, EveryOrderTest,
                         ::testing::ValuesIn(ShapesInOrders(/*chosen=*/true)), NameOfOrder);
INSTANTIATE_TEST_SUITE_P(ExhaustivePipelineTraining, EveryOrderTest,
                         ::testing::ValuesIn(ShapesInOrders(/*chosen=*/false)), NameOfOrder);

class EveryShapeTest : public PipelineTrainingTest, public ::testing::WithParamInterface<Shape> {
 protected:
  // Divides each mesh into the number of stages chosen for it, which differs with the shape, or
  // into the others.
  void ExpectMeshesToTrainAsWithout(bool chosen);
};

void EveryShapeTest::ExpectMeshesToTrainAsWithout(bool chosen) {
  const v1::JobSpec spec = Job(GetParam());
  uint32_t meshes = 0;
  for (const StageMesh& mesh :
       {StageMesh{.data = 2, .tensor = 2}, StageMesh{.data = 2, .tensor = 2, .zero = 1},
        StageMesh{.data = 2, .tensor = 2, .zero = 2}, StageMesh{.data = 4, .zero = 1, .shard = 2},
        StageMesh{.data = 4, .zero = 2}, StageMesh{.data = 2, .tensor = 2, .zero = 3},
        StageMesh{.data = 4, .zero = 3, .shard = 2}}) {
    // More ranks take long where processors are few.
    const uint32_t most = mesh.tensor == 1             ? 2
                          : GetParam() != Shape::kGpt2 ? 4
                          : mesh.zero == 1             ? 3
                                                       : 2;
    const uint32_t turn = meshes++ + static_cast<uint32_t>(GetParam());
    const uint32_t chosen_stages = std::min(most, 2 + turn % 3);
    if (!chosen && most == 2) continue;
    const v1::JobSpec without = On(spec, mesh);
    const TrainedValues expected = ValuesByAllReduce(without);
    for (uint32_t stages = 2; stages <= most; ++stages) {
      if ((stages == chosen_stages) != chosen) continue;
      SCOPED_TRACE(
          absl::StrCat(stages, " x ", mesh.data, " x ", mesh.tensor, ", stage ", mesh.zero));
      ExpectSame(GetParam(),
                 ValuesByAllReduce(InPipeline(without, stages, Parallelism::ONE_F_ONE_B)),
                 expected);
    }
  }
}

TEST_P(EveryShapeTest, MeshesInAPipelineTrainAsTheyDoWithoutExhaustive) {
  ExpectMeshesToTrainAsWithout(/*chosen=*/false);
}

TEST_P(EveryShapeTest, MeshesInAPipelineTrainAsTheyDoWithout) {
  ExpectMeshesToTrainAsWithout(/*chosen=*/true);
  const v1::JobSpec tensor = On(Job(GetParam()), {.tensor = 2});
  const TrainedValues expected = ValuesByAllReduce(tensor);
  ExpectSame(GetParam(), ValuesByAllReduce(InPipeline(tensor, 4, Parallelism::ZERO_BUBBLE)),
             expected);
  ExpectSame(GetParam(), ValuesByAllReduce(InPipeline(tensor, 2, Parallelism::INTERLEAVED)),
             expected);
  const v1::JobSpec whole_rows = WithoutSequence(tensor);
  ExpectSame(GetParam(), ValuesByAllReduce(InPipeline(whole_rows, 3, Parallelism::GPIPE)),
             ValuesByAllReduce(whole_rows));
}

// Three and four stages of two chunks each.
TEST_P(EveryShapeTest, DeepModelsTrainInterleavedAsTheSameMeshWithout) {
  v1::JobSpec spec = OnMesh(Job(GetParam(), /*blocks=*/7), 1, 1);
  for (const uint32_t stages : {3, 4}) {
    SCOPED_TRACE(stages);
    spec.set_micro_batches(2 * stages);
    ExpectSame(GetParam(), ValuesByAllReduce(InPipeline(spec, stages, Parallelism::INTERLEAVED)),
               ValuesByAllReduce(spec));
  }
}

// What stages send is rounded to the type of computation, wherever layers are divided.
TEST_P(EveryShapeTest, SixteenBitTypesAreNear) {
  if (GetParam() == Shape::kPerceptron) return;
  for (const auto type : {v1::ComputeSpec::BF16, v1::ComputeSpec::F16}) {
    SCOPED_TRACE(type);
    v1::JobSpec spec = On(Job(GetParam()), {.data = 2, .zero = 1});
    spec.mutable_compute()->set_type(type);
    spec.mutable_stop()->set_steps(10);
    const TrainedValues pipeline = ValuesByAllReduce(InPipeline(spec, 3, Parallelism::ONE_F_ONE_B));
    ExpectClose(pipeline, ValuesByAllReduce(spec), type == v1::ComputeSpec::BF16 ? 3e-2 : 4e-3);
    EXPECT_EQ(ValuesByAllReduce(InPipeline(spec, 3, Parallelism::ZERO_BUBBLE)).values,
              pipeline.values);
  }
}

// From one mesh, stage and road to another.
TEST_P(EveryShapeTest, CheckpointsGoOnOnOtherMeshesStagesAndRoads) {
  v1::JobSpec spec = Job(GetParam());
  spec.mutable_checkpoint()->set_every_steps(4);
  spec.mutable_stop()->set_steps(32);
  const TrainedValues expected = TrainLocally(spec);
  RunCheckpoints checkpoints;
  RunOptions options;
  options.checkpoints = &checkpoints;
  const auto train = [&](const v1::JobSpec& next) {
    ExpectClose(ValuesByAllReduce(next, options), expected, 1e-5);
    options.from += 4;
  };
  train(InPipeline(On(spec, {.data = 2, .zero = 2}), 2, Parallelism::ONE_F_ONE_B));
  train(InPipeline(On(spec, {.data = 1}), 4, Parallelism::GPIPE));
  train(InPipeline(On(spec, {.data = 2, .zero = 3}), 2, Parallelism::GPIPE));
  train(On(spec, {.data = 3, .zero = 3}));
  train(InPipeline(On(spec, {.tensor = 2, .zero = 0}), 2, Parallelism::INTERLEAVED));
  v1::JobSpec on_servers = On(spec, {.data = 2});
  on_servers.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  on_servers.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  ExpectClose(TrainOnServers(on_servers, options).trained[0], expected, 1e-5);
  options.from += 4;
  train(InPipeline(On(spec, {.data = 2, .tensor = 2, .zero = 1}), 2, Parallelism::ZERO_BUBBLE));
  train(On(spec, {.data = 1}));
}

TEST_P(EveryShapeTest, EvaluationsCountEachExampleOnce) {
  v1::JobSpec spec = Job(GetParam());
  spec.mutable_stop()->set_steps(8);
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(4);
  const RunResult alone = TrainByAllReduce(On(spec, {.data = 1}), {});
  ASSERT_GT(alone.evaluated, 0u);
  for (const auto schedule : {Parallelism::ONE_F_ONE_B, Parallelism::INTERLEAVED}) {
    const v1::JobSpec job = InPipeline(On(spec, {.data = 2}), 2, schedule);
    const RunResult run = TrainByAllReduce(job, {});
    ASSERT_NO_FATAL_FAILURE(ExpectEvaluationsOf(alone, run));
    v1::JobSpec seldom = job;
    seldom.mutable_evaluation()->set_every_steps(8);
    const StrategyCounters counters = TrainByAllReduce(seldom, {}).counters[0];
    EXPECT_GT(counters.stage_bytes_sent, 0);
    EXPECT_EQ(run.counters[0].stage_bytes_sent, counters.stage_bytes_sent)
        << "evaluations do not count";
  }
}

TEST_P(EveryShapeTest, BytesAlongEachAxisAreThosePredicted) {
  v1::JobSpec spec = Job(GetParam());
  spec.mutable_stop()->set_steps(4);
  v1::JobSpec half = spec;
  if (GetParam() != Shape::kPerceptron) half.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  for (const v1::JobSpec& job :
       {InPipeline(On(spec, {.data = 1}), 4, Parallelism::ONE_F_ONE_B),
        InPipeline(On(spec, {.data = 2}), 2, Parallelism::INTERLEAVED),
        InPipeline(On(spec, {.data = 2, .zero = 2}), 2, Parallelism::GPIPE),
        InPipeline(On(half, {.data = 3, .zero = 1}), 2, Parallelism::ONE_F_ONE_B),
        InPipeline(On(spec, {.data = 2, .tensor = 2, .zero = 1}), 2, Parallelism::ZERO_BUBBLE)}) {
    ExpectPredictedTraffic(job);
  }
}

INSTANTIATE_TEST_SUITE_P(PipelineTraining, EveryShapeTest,
                         ::testing::Values(Shape::kGpt2, Shape::kLlama, Shape::kPerceptron),
                         [](const auto& info) { return NameOf(info.param); });

TEST_F(PipelineTrainingTest, OverflowsAreLeftOutByAllStages) {
  v1::JobSpec spec = InFloat16(On(Job(Shape::kGpt2), {.data = 2}), 12);
  const TrainedValues expected = ValuesByAllReduce(spec);
  spec = InPipeline(spec, 3, Parallelism::ONE_F_ONE_B);
  const RunResult run = TrainByAllReduce(spec, {});
  EXPECT_FALSE(StepsLeftOut(spec, run).empty());
  ExpectClose(SameOfAllRanks(run), expected, 4e-3);
}

void PipelineTrainingTest::ExpectStateOfPeers(bool chosen) {
  for (const Shape shape : {Shape::kGpt2, Shape::kLlama}) {
    v1::JobSpec spec = InPipeline(On(Job(shape), {.data = 2}), 2, Parallelism::ONE_F_ONE_B);
    spec.mutable_stop()->set_steps(8);
    const TrainedValues expected = ValuesByAllReduce(spec);
    for (const uint32_t slot : {0, 3}) {
      for (const HookCall& at :
           {HookCall{Hook::kAcquire, 3, 2}, HookCall{Hook::kBeforeBackward, 2, 1},
            HookCall{Hook::kGradientReady, 4, 4}, HookCall{Hook::kEndStep, 5, 1}}) {
        for (const bool takes_effect : {false, true}) {
          const uint32_t turn =
              slot + static_cast<uint32_t>(at.step) + static_cast<uint32_t>(shape);
          if ((takes_effect == (turn % 2 == 1)) != chosen) continue;
          ExpectLossIsRepaired(spec, {slot, at, takes_effect}, expected);
        }
      }
    }
  }
}

TEST_F(PipelineTrainingTest, ALostRankTakesTheStateOfItsPeerOnTheSameStage) {
  ExpectStateOfPeers(/*chosen=*/true);
}

TEST_F(PipelineTrainingTest, ALostRankTakesTheStateOfItsPeerOnTheSameStageExhaustive) {
  ExpectStateOfPeers(/*chosen=*/false);
}

}  // namespace
}  // namespace muster
