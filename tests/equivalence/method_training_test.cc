// Optimizers and losses that fine-tuning takes, on meshes and roads as by one process: Lion, adamw
// with its state in bf16, label smoothing and the z-loss of logits.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

v1::JobSpec OnServers(v1::JobSpec spec) {
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  return spec;
}

class MethodTrainingTest : public ::testing::Test {
 protected:
  v1::JobSpec Job(const std::string& optimizer) {
    v1::JobSpec spec = ByAllReduce(TensorJob(TensorShape::kLlama, folder_));
    v1::OptimizerSpec& to = *spec.mutable_optimizer();
    to.Clear();
    to.set_name(optimizer);
    to.set_learning_rate(1e-3f);
    to.set_weight_decay(0.1f);
    to.set_average_decay(0.75);
    spec.mutable_clipping()->set_by_global_norm(0.05);
    spec.mutable_stop()->set_steps(8);
    return spec;
  }

  // Expects the job to end near one process's weights on meshes of tensor and data ranks, and with
  // the same bits under each ZeRO stage and on servers.
  void ExpectOnMeshes(const v1::JobSpec& spec, double tolerance) {
    const TrainedValues alone = TrainLocally(spec);
    for (const auto& [tensor, data] : {std::pair<uint32_t, uint32_t>{1, 2}, {2, 2}}) {
      SCOPED_TRACE(absl::StrCat("tensor ", tensor, ", data ", data));
      const TrainedValues whole = ValuesByAllReduce(OnMesh(spec, tensor, data));
      ExpectClose(whole, alone, tolerance);
      for (const uint32_t stage : {1, 2, 3}) {
        EXPECT_EQ(ValuesByAllReduce(OnMesh(spec, tensor, data, stage)).values, whole.values)
            << stage;
      }
      for (const uint32_t stage : {0, 3}) {
        EXPECT_EQ(ValuesOnServers(OnServers(OnMesh(spec, tensor, data, stage))).values,
                  whole.values)
            << stage;
      }
    }
  }

  const TempFolder folder_;
};

// Where sums are added in another order, elements near zero take the other sign.
TEST_F(MethodTrainingTest, LionEndsInTheSameBitsOnEveryRoadAndStage) {
  ExpectOnMeshes(Job("lion"), 2e-3);
}

// Values are rounded at random, by the element's own numbers. Where sums are added in another
// order, a state that is larger by a bit may be rounded the other way: by one in 256, which is what
// biases, that begin at zero, may differ by.
TEST_F(MethodTrainingTest, StateInBfloat16EndsInTheSameBitsOnEveryRoadAndStage) {
  v1::JobSpec spec = Job("adamw");
  spec.mutable_optimizer()->set_state_type(v1::OptimizerSpec::BF16);
  // Gradients of biases may start near zero (training_jobs.cc).
  spec.mutable_optimizer()->set_epsilon(1e-2f);
  ExpectOnMeshes(spec, 1.0 / 256);
}

TEST_F(MethodTrainingTest, LossesHaveTheGradientOfOneProcess) {
  v1::JobSpec spec = ByAllReduce(TensorJob(TensorShape::kGpt2, folder_));
  spec.mutable_model()->mutable_transformer()->set_label_smoothing(0.1f);
  spec.mutable_model()->mutable_transformer()->set_z_loss(1e-2f);
  spec = ForGradients(spec);
  const TrainedValues alone = TrainLocally(spec);
  ExpectClose(ValuesByAllReduce(OnMesh(spec, 2, 2, 2)), alone, 1e-5);
  ExpectClose(ValuesByAllReduce(InContext(OnMesh(spec, 1, 2), 2)), alone, 1e-5);
  ExpectClose(ValuesByAllReduce(InContext(OnMesh(spec, 2, 2, 3), 2)), alone, 1e-5);
  ExpectClose(ValuesOnServers(OnServers(InContext(OnMesh(spec, 2, 2), 2))), alone, 1e-5);
}

}  // namespace
}  // namespace muster
