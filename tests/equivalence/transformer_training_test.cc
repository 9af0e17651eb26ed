// Transformers train alike in one process, on servers and by all-reduce: with dropout, whose masks
// follow the example and not who computes it, with micro-batches, and over a whole loss curve.
#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"
#include "tests/harness/test_folder.h"

namespace muster {
namespace {

class TransformerTrainingTest : public ::testing::Test {
 protected:
  v1::JobSpec Job() {
    v1::JobSpec spec = TinyJob("transformer", "adamw", WriteTinyText(folder_));
    spec.mutable_optimizer()->set_learning_rate(0.003);
    spec.mutable_model()->mutable_transformer()->set_dropout(0.1);
    return spec;
  }

  static v1::JobSpec ByAllReduce(v1::JobSpec spec) {
    spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_update()->set_bucket_bytes(4096);
    return spec;
  }

  static void ExpectSameCurve(const LossCurve& actual, const LossCurve& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& point : expected) {
      ASSERT_EQ(actual.count(point.first), 1) << point.first;
      EXPECT_NEAR(actual.at(point.first), point.second, 1e-4) << "step " << point.first;
    }
  }

  const TestFolder folder_;
};

TEST_F(TransformerTrainingTest, TheLossCurveOfTwoHundredSteps) {
  v1::JobSpec spec = Job();
  spec.mutable_stop()->set_steps(200);
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(10);
  LossCurve expected;
  TrainLocally(spec, &expected);
  ASSERT_EQ(expected.size(), 20);
  EXPECT_LT(expected.at(200), 0.6 * expected.at(10));
  ExpectSameCurve(TrainOnServers(spec, {}).curve, expected);
  ExpectSameCurve(TrainByAllReduce(ByAllReduce(spec), {}).curve, expected);
}

TEST_F(TransformerTrainingTest, MicroBatchesAndClipping) {
  v1::JobSpec spec = Job();
  spec.set_micro_batches(3);
  spec.mutable_clipping()->set_by_global_norm(0.5);
  const TrainedValues expected = TrainLocally(spec);
  ExpectClose(TrainOnServers(spec, {}).trained[0], expected, 1e-5);
  ExpectClose(TrainByAllReduce(ByAllReduce(spec), {}).trained[0], expected, 1e-5);
}

TEST_F(TransformerTrainingTest, LearnedPositionsAndBiases) {
  v1::JobSpec spec = Job();
  v1::TransformerSpec& model = *spec.mutable_model()->mutable_transformer();
  model.set_norm(v1::TransformerSpec::LAYER_NORM);
  model.set_activation(v1::TransformerSpec::GELU);
  model.set_no_biases(false);
  model.set_separate_head(true);
  // Takes the keys' bias for what it is: see TinyJob.
  spec.mutable_optimizer()->Clear();
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_learning_rate(0.1);
  const TrainedValues expected = TrainLocally(spec);
  // Biases start at 0, and sums over all tokens in which most cancels are all there is of them.
  ExpectClose(TrainOnServers(spec, {}).trained[0], expected, 5e-5);
  ExpectClose(TrainByAllReduce(ByAllReduce(spec), {}).trained[0], expected, 5e-5);
}

// A master weight that differs in its last bit can round to another bf16, so runs that sum in other
// orders part by a few bf16 roundings.
TEST_F(TransformerTrainingTest, Bf16) {
  v1::JobSpec spec = Job();
  spec.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  spec.mutable_compute()->set_recompute(v1::ComputeSpec::SELECTIVE);
  const TrainedValues expected = TrainLocally(spec);
  ExpectClose(TrainOnServers(spec, {}).trained[0], expected, 2e-2);
  ExpectClose(TrainByAllReduce(ByAllReduce(spec), {}).trained[0], expected, 2e-2);
}

TEST_F(TransformerTrainingTest, RecomputationChangesNoBit) {
  v1::JobSpec spec = Job();
  const TrainedValues expected = TrainLocally(spec);
  for (const auto recompute : {v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
    spec.mutable_compute()->set_recompute(recompute);
    EXPECT_EQ(TrainLocally(spec).values, expected.values) << recompute;
  }
}

}  // namespace
}  // namespace muster
