// Jobs whose layers are divided among the stages of a pipeline train as the same mesh does without
// one: to the bit, unless the head is tied to the embedding of another stage. Their checkpoints go
// on on any other mesh.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/compare/traffic_prediction.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "proto/schema.pb.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_run.h"
#include "worker/runtime/training/prepared_job.h"

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

TrainedValues Train(const v1::JobSpec& spec, const RunOptions& options = {}) {
  return SameOfAllRanks(TrainByAllReduce(spec, options));
}

v1::JobSpec On(const v1::JobSpec& spec, const StageMesh& mesh) {
  return OnMesh(spec, mesh.tensor, mesh.data, mesh.zero, mesh.shard);
}

// Puts a pipeline over a job's mesh.
v1::JobSpec Divided(v1::JobSpec spec, uint32_t stages, Parallelism::PipelineSchedule schedule) {
  spec.set_workers(spec.workers() * stages);
  spec.mutable_parallelism()->set_pipeline(stages);
  spec.mutable_parallelism()->set_pipeline_schedule(schedule);
  return spec;
}

class PipelineTrainingTest : public ::testing::Test {
 protected:
  // Returns a job of five layers, or four of a perceptron, with four micro-batches and clipping.
  v1::JobSpec Job(Shape shape) {
    v1::JobSpec spec = ByAllReduce(TensorJob(shape, folder_));
    if (shape == Shape::kPerceptron) {
      spec.mutable_model()->mutable_mlp()->add_hidden(8);
    } else {
      spec.mutable_model()->mutable_transformer()->set_layers(3);
    }
    spec.mutable_update()->set_first_bucket_bytes(64);
    spec.mutable_update()->set_bucket_bytes(500);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    spec.set_micro_batches(4);
    spec.mutable_stop()->set_steps(50);
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

  const TempFolder folder_;
};

const char* NameOf(Shape shape) {
  return shape == Shape::kGpt2 ? "Gpt2" : shape == Shape::kLlama ? "Llama" : "Perceptron";
}

using Order = std::tuple<Parallelism::PipelineSchedule, uint32_t>;

class EveryOrderTest : public PipelineTrainingTest,
                       public ::testing::WithParamInterface<std::tuple<Shape, Order>> {
 protected:
  static Shape shape() { return std::get<0>(GetParam()); }
  static v1::JobSpec InPipeline(const v1::JobSpec& spec) {
    const auto [schedule, stages] = std::get<1>(GetParam());
    return Divided(spec, stages, schedule);
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
    ExpectSame(shape(), Train(InPipeline(mesh)), Train(mesh));
  }
}

// Steps so large that only the gradients are left of the weights.
TEST_P(EveryOrderTest, GradientsAreThoseOfTheSameMeshWithout) {
  v1::JobSpec spec = Job(shape());
  if (std::get<0>(std::get<1>(GetParam())) == Parallelism::LAYER_WISE) spec.clear_micro_batches();
  spec.clear_optimizer();
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_learning_rate(1e6);
  spec.clear_clipping();
  spec.mutable_stop()->set_steps(1);
  const v1::JobSpec mesh = On(spec, {.data = 2});
  ExpectSame(shape(), Train(InPipeline(mesh)), Train(mesh), 1e-6);
}

TEST_P(EveryOrderTest, EveryStageOfZeroEndsInTheSameBits) {
  v1::JobSpec spec = Job(shape());
  spec.mutable_stop()->set_steps(20);
  if (std::get<0>(std::get<1>(GetParam())) == Parallelism::LAYER_WISE) spec.clear_micro_batches();
  for (const uint32_t zero : {1, 2}) {
    if (zero == 2 && Overlaps()) continue;
    SCOPED_TRACE(zero);
    const v1::JobSpec mesh = On(spec, {.data = 2, .zero = zero});
    ExpectSame(shape(), Train(InPipeline(mesh)), Train(mesh));
  }
}

INSTANTIATE_TEST_SUITE_P(
    PipelineTraining, EveryOrderTest,
    ::testing::Combine(
        ::testing::Values(Shape::kGpt2, Shape::kLlama, Shape::kPerceptron),
        ::testing::Values(Order{Parallelism::LAYER_WISE, 2}, Order{Parallelism::GPIPE, 3},
                          Order{Parallelism::ONE_F_ONE_B, 2}, Order{Parallelism::ONE_F_ONE_B, 3},
                          Order{Parallelism::ONE_F_ONE_B, 4}, Order{Parallelism::INTERLEAVED, 2},
                          Order{Parallelism::ZERO_BUBBLE, 2}, Order{Parallelism::ZERO_BUBBLE, 4})),
    [](const auto& info) {
      const Order order = std::get<1>(info.param);
      return absl::StrCat(NameOf(std::get<0>(info.param)), "_",
                          Parallelism::PipelineSchedule_Name(std::get<0>(order)), "_",
                          std::get<1>(order));
    });

class EveryShapeTest : public PipelineTrainingTest, public ::testing::WithParamInterface<Shape> {};

TEST_P(EveryShapeTest, EightRanksTrainAsTheSameMeshWithout) {
  v1::JobSpec spec = Job(GetParam());
  spec.mutable_stop()->set_steps(20);
  for (const StageMesh& mesh :
       {StageMesh{.data = 2, .tensor = 2}, StageMesh{.data = 2, .tensor = 2, .zero = 1},
        StageMesh{.data = 2, .tensor = 2, .zero = 2}, StageMesh{.data = 4, .zero = 1, .shard = 2},
        StageMesh{.data = 4, .zero = 2}}) {
    SCOPED_TRACE(absl::StrCat(mesh.data, " x ", mesh.tensor, ", stage ", mesh.zero));
    const v1::JobSpec without = On(spec, mesh);
    ExpectSame(GetParam(), Train(Divided(without, 2, Parallelism::ONE_F_ONE_B)), Train(without));
  }
  const v1::JobSpec tensor = On(spec, {.tensor = 2});
  const TrainedValues expected = Train(tensor);
  ExpectSame(GetParam(), Train(Divided(tensor, 4, Parallelism::ZERO_BUBBLE)), expected);
  ExpectSame(GetParam(), Train(Divided(tensor, 2, Parallelism::INTERLEAVED)), expected);
  const v1::JobSpec whole_rows = WithoutSequence(tensor);
  ExpectSame(GetParam(), Train(Divided(whole_rows, 3, Parallelism::GPIPE)), Train(whole_rows));
}

// What stages send is rounded to the type of computation, wherever layers are divided.
TEST_P(EveryShapeTest, SixteenBitTypesAreNear) {
  if (GetParam() == Shape::kPerceptron) return;
  for (const auto type : {v1::ComputeSpec::BF16, v1::ComputeSpec::F16}) {
    SCOPED_TRACE(type);
    v1::JobSpec spec = On(Job(GetParam()), {.data = 2, .zero = 1});
    spec.mutable_compute()->set_type(type);
    spec.mutable_stop()->set_steps(10);
    const TrainedValues pipeline = Train(Divided(spec, 3, Parallelism::ONE_F_ONE_B));
    ExpectClose(pipeline, Train(spec), type == v1::ComputeSpec::BF16 ? 3e-2 : 4e-3);
    EXPECT_EQ(Train(Divided(spec, 3, Parallelism::ZERO_BUBBLE)).values, pipeline.values);
  }
}

// From one mesh, stage and road to another.
TEST_P(EveryShapeTest, CheckpointsGoOnOnOtherMeshesStagesAndRoads) {
  v1::JobSpec spec = Job(GetParam());
  spec.mutable_checkpoint()->set_every_steps(4);
  spec.mutable_stop()->set_steps(28);
  const TrainedValues expected = TrainLocally(spec);
  RunCheckpoints checkpoints;
  RunOptions options;
  options.checkpoints = &checkpoints;
  const auto train = [&](const v1::JobSpec& next) {
    ExpectClose(Train(next, options), expected, 1e-5);
    options.from += 4;
  };
  train(Divided(On(spec, {.data = 2, .zero = 2}), 2, Parallelism::ONE_F_ONE_B));
  train(Divided(On(spec, {.data = 1}), 4, Parallelism::GPIPE));
  train(On(spec, {.data = 3, .zero = 3}));
  train(Divided(On(spec, {.tensor = 2, .zero = 0}), 2, Parallelism::INTERLEAVED));
  v1::JobSpec on_servers = On(spec, {.data = 2});
  on_servers.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  on_servers.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  ExpectClose(TrainOnServers(on_servers, options).trained[0], expected, 1e-5);
  options.from += 4;
  train(Divided(On(spec, {.data = 2, .tensor = 2, .zero = 1}), 2, Parallelism::ZERO_BUBBLE));
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
    const v1::JobSpec job = Divided(On(spec, {.data = 2}), 2, schedule);
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
       {Divided(On(spec, {.data = 1}), 4, Parallelism::ONE_F_ONE_B),
        Divided(On(spec, {.data = 2}), 2, Parallelism::INTERLEAVED),
        Divided(On(spec, {.data = 2, .zero = 2}), 2, Parallelism::GPIPE),
        Divided(On(half, {.data = 3, .zero = 1}), 2, Parallelism::ONE_F_ONE_B),
        Divided(On(spec, {.data = 2, .tensor = 2, .zero = 1}), 2, Parallelism::ZERO_BUBBLE)}) {
    SCOPED_TRACE(job.parallelism().ShortDebugString());
    const auto predicted =
        PredictAllReduceTraffic(*PrepareJob(job).value().schema, job, AllReduceWay::kSharedMemory);
    ASSERT_EQ(predicted.status(), absl::OkStatus());
    const RunResult run = TrainByAllReduce(job, {});
    ASSERT_EQ(run.counters.size(), predicted->workers.size());
    for (size_t slot = 0; slot < run.counters.size(); ++slot) {
      SCOPED_TRACE(slot);
      const StrategyCounters& counters = run.counters[slot];
      const WorkerTraffic& all = predicted->workers[slot];
      const WorkerTraffic& tensor = predicted->tensor[slot];
      const WorkerTraffic& stages = predicted->pipeline[slot];
      EXPECT_GT(counters.stage_bytes_sent, 0);
      EXPECT_EQ(counters.stage_bytes_sent, 4 * stages.sent);
      EXPECT_EQ(counters.stage_bytes_received, 4 * stages.received);
      EXPECT_EQ(counters.tensor_bytes_sent, 4 * tensor.sent);
      EXPECT_EQ(counters.tensor_bytes_received, 4 * tensor.received);
      EXPECT_EQ(counters.bytes_sent, 4 * (all.sent - tensor.sent - stages.sent));
      EXPECT_EQ(counters.bytes_received, 4 * (all.received - tensor.received - stages.received));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(PipelineTraining, EveryShapeTest,
                         ::testing::Values(Shape::kGpt2, Shape::kLlama, Shape::kPerceptron),
                         [](const auto& info) { return NameOf(info.param); });

// The scale doubles with each step until gradients overflow, on whatever stage; those steps are
// left out by all.
TEST_F(PipelineTrainingTest, OverflowsAreLeftOutByAllStages) {
  v1::JobSpec spec = On(Job(Shape::kGpt2), {.data = 2});
  spec.mutable_compute()->set_type(v1::ComputeSpec::F16);
  spec.mutable_compute()->set_loss_scale_window(1);
  spec.mutable_stop()->set_steps(12);
  const TrainedValues expected = Train(spec);
  const RunResult run = TrainByAllReduce(Divided(spec, 3, Parallelism::ONE_F_ONE_B), {});
  std::vector<int> left_out(6);
  for (const std::string& line : run.log) {
    for (size_t slot = 0; slot < left_out.size(); ++slot) {
      const bool of_slot = line.find(absl::StrCat("slot ", slot)) != line.npos;
      left_out[slot] += of_slot && line.find("left out") != line.npos;
    }
  }
  for (const int of_slot : left_out) {
    EXPECT_GT(of_slot, 0);
    EXPECT_EQ(of_slot, left_out[0]);
  }
  ExpectClose(SameOfAllRanks(run), expected, 4e-3);
}

TEST_F(PipelineTrainingTest, ALostRankTakesTheStateOfItsPeerOnTheSameStage) {
  for (const Shape shape : {Shape::kGpt2, Shape::kLlama}) {
    v1::JobSpec spec = Divided(On(Job(shape), {.data = 2}), 2, Parallelism::ONE_F_ONE_B);
    spec.mutable_stop()->set_steps(8);
    const TrainedValues expected = Train(spec);
    for (const uint32_t slot : {0, 3}) {
      for (const HookCall& at :
           {HookCall{Hook::kAcquire, 3, 2}, HookCall{Hook::kBeforeBackward, 2, 1},
            HookCall{Hook::kGradientReady, 4, 4}, HookCall{Hook::kEndStep, 5, 1}}) {
        for (const bool takes_effect : {false, true}) {
          SCOPED_TRACE(absl::StrCat("slot ", slot, ", step ", at.step));
          RunOptions options;
          options.deaths = {{.slot = slot, .at = at, .takes_effect = takes_effect}};
          EXPECT_EQ(Train(spec, options).values, expected.values);
        }
      }
    }
  }
}

}  // namespace
}  // namespace muster
