// Muon moves whole matrices, however ranks divide them: on every mesh and road as one process does,
// and to the bit where the order of sums is the same.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/expected_traffic.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

using Shape = TensorShape;

class MuonTrainingTest : public ::testing::Test {
 protected:
  // Returns a deterministic job with clipping.
  v1::JobSpec Job(Shape shape) {
    v1::JobSpec spec = TensorJob(shape, folder_);
    v1::OptimizerSpec& optimizer = *spec.mutable_optimizer();
    optimizer.clear_epsilon();
    optimizer.set_name("muon");
    optimizer.set_learning_rate(0.01);
    optimizer.set_weight_decay(0.1);
    // Gradients of what is no matrix may start near zero (training_jobs.cc).
    optimizer.set_epsilon(1e-2f);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    spec.mutable_stop()->set_steps(8);
    return spec;
  }

  const TempFolder folder_;
};

// Tensor ranks have shares of matrices, and shards slices of these.
TEST_F(MuonTrainingTest, TensorRanksAndStagesEndInTheSameBits) {
  for (const Shape shape : {Shape::kGpt2, Shape::kLlama, Shape::kExperts}) {
    SCOPED_TRACE(NameOf(shape));
    const v1::JobSpec spec = ByAllReduce(Job(shape));
    const TrainedValues alone = TrainLocally(spec);
    for (const auto& [tensor, data] : {std::pair<uint32_t, uint32_t>{1, 3}, {2, 2}, {4, 1}}) {
      SCOPED_TRACE(absl::StrCat("tensor ", tensor, ", data ", data));
      const TrainedValues whole = ValuesByAllReduce(OnMesh(spec, tensor, data));
      ExpectClose(whole, alone, 2e-5);
      for (const uint32_t stage : {1, 2, 3}) {
        EXPECT_EQ(ValuesByAllReduce(OnMesh(spec, tensor, data, stage)).values, whole.values)
            << stage;
      }
    }
    // Two shard groups, which are replicas.
    ExpectClose(ValuesByAllReduce(OnMesh(spec, 2, 4, 3, /*shard=*/2)), alone, 2e-5);
  }
}

TEST_F(MuonTrainingTest, PipelinesContextsAndExpertRanksTrainAsOneProcess) {
  const v1::JobSpec spec = ByAllReduce(Job(Shape::kLlama));
  const TrainedValues alone = TrainLocally(spec);
  v1::JobSpec pipeline = InPipeline(OnMesh(spec, 1, 2, 2), 2, v1::ParallelismSpec::ONE_F_ONE_B);
  pipeline.set_micro_batches(2);
  ExpectClose(ValuesByAllReduce(pipeline), alone, 2e-5);
  ExpectClose(ValuesByAllReduce(InContext(OnMesh(spec, 1, 2, 1), 2)), alone, 2e-5);

  v1::JobSpec experts = ByAllReduce(Job(Shape::kExperts));
  experts.mutable_model()->mutable_transformer()->mutable_moe()->set_experts(6);
  const TrainedValues all_experts = TrainLocally(experts);
  experts.mutable_parallelism()->set_expert(2);
  for (const uint32_t stage : {0, 2}) {
    ExpectClose(ValuesByAllReduce(OnMesh(experts, 1, 4, stage)), all_experts, 2e-5);
  }
}

// Each road goes on from a checkpoint of another one.
TEST_F(MuonTrainingTest, RoadsEndInTheSameBits) {
  v1::JobSpec spec = ByAllReduce(Job(Shape::kLlama));
  spec.set_workers(3);
  spec.mutable_checkpoint()->set_every_steps(3);
  spec.mutable_optimizer()->set_average_decay(0.75);
  v1::ParameterGroup& group = *spec.mutable_optimizer()->add_groups();
  group.add_names("*.qkv.weight");
  group.set_rate(2);
  group.set_weight_decay(0.5);
  const TrainedValues expected = ValuesByAllReduce(spec);
  RunCheckpoints checkpoints;
  RunOptions options;
  options.checkpoints = &checkpoints;
  EXPECT_EQ(ValuesByAllReduce(OnMesh(spec, 1, 3, 3), options).values, expected.values);
  v1::JobSpec on_servers = spec;
  on_servers.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  on_servers.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  options.from = 3;
  EXPECT_EQ(ValuesOnServers(on_servers, options).values, expected.values);
  options.from = 6;
  EXPECT_EQ(ValuesByAllReduce(OnMesh(spec, 1, 3, 1), options).values, expected.values);
}

TEST_F(MuonTrainingTest, StagesOnServersTrainAsOneProcess) {
  const v1::JobSpec spec = Job(Shape::kGpt2);
  v1::JobSpec pipeline = InPipeline(OnMesh(spec, 1, 2), 2, v1::ParallelismSpec::ONE_F_ONE_B);
  pipeline.set_micro_batches(2);
  ExpectClose(ValuesOnServers(pipeline), TrainLocally(spec), 2e-5);
}

// The scale doubles with each step until gradients overflow; those steps are left out.
TEST_F(MuonTrainingTest, OverflowsAreLeftOutInEveryStage) {
  const v1::JobSpec spec = InFloat16(ByAllReduce(Job(Shape::kLlama)), 20);
  const RunResult whole = TrainByAllReduce(OnMesh(spec, 2, 2), {});
  EXPECT_FALSE(StepsLeftOut(OnMesh(spec, 2, 2), whole).empty());
  for (const uint32_t stage : {1, 3}) {
    EXPECT_EQ(TrainByAllReduce(OnMesh(spec, 2, 2, stage), {}).trained[0].values,
              whole.trained[0].values)
        << stage;
  }
}

TEST_F(MuonTrainingTest, RanksCallWhatIsPlanned) {
  for (const Shape shape : {Shape::kGpt2, Shape::kExperts, Shape::kPerceptron}) {
    v1::JobSpec spec = ByAllReduce(Job(shape));
    spec.mutable_stop()->set_steps(2);
    ExpectPredictedTraffic(OnMesh(spec, 1, 3, 1));
    ExpectPredictedTraffic(OnMesh(spec, 2, 1));
    ExpectPredictedTraffic(OnMesh(spec, 2, 2, 3));
    ExpectPredictedTraffic(OnMesh(spec, 2, 4, 2, /*shard=*/2));
  }
  v1::JobSpec pipeline = PipelineJob(Shape::kLlama, folder_, /*blocks=*/4);
  *pipeline.mutable_optimizer() = Job(Shape::kLlama).optimizer();
  pipeline.mutable_stop()->set_steps(2);
  ExpectPredictedTraffic(
      InPipeline(OnMesh(ByAllReduce(pipeline), 1, 2, 2), 2, v1::ParallelismSpec::ONE_F_ONE_B));
  v1::JobSpec on_servers = pipeline;
  ExpectPredictedTraffic(InPipeline(OnMesh(on_servers, 1, 2), 2, v1::ParallelismSpec::ONE_F_ONE_B));
}

}  // namespace
}  // namespace muster
