// Documents that share sequences without seeing one another have the same gradients on every road.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

class PackedTrainingTest : public ::testing::TestWithParam<TensorShape> {
 protected:
  PackedTrainingTest() {
    for (int i = 0; i < 60; ++i) {
      documents_.Write(
          absl::StrCat(1000 + i),
          std::string("the fox number 3 jumps over 17 dogs").substr(i % 5, 1 + i % 17));
    }
  }

  // A step so large that only its gradients are left of the weights.
  v1::JobSpec Job(v1::SequenceData::Packing packing = v1::SequenceData::WITHIN_DOCUMENTS) const {
    v1::JobSpec spec = TensorJob(GetParam(), folder_);
    spec.mutable_data()->mutable_sequences()->set_path(documents_.path());
    spec.mutable_data()->mutable_sequences()->set_packing(packing);
    spec.mutable_model()->mutable_transformer()->set_layers(3);
    spec.clear_optimizer();
    spec.mutable_optimizer()->set_name("sgd");
    spec.mutable_optimizer()->set_learning_rate(1e6);
    spec.set_micro_batches(2);
    spec.mutable_stop()->set_steps(1);
    return spec;
  }

  const TempFolder folder_;
  TempFolder documents_;
};

TEST_P(PackedTrainingTest, OnServersAndByAllReduce) {
  const v1::JobSpec spec = Job();
  const TrainedValues expected = TrainLocally(spec);
  ExpectClose(ValuesOnServers(spec), expected, 1e-5);
  ExpectClose(ValuesByAllReduce(ByAllReduce(spec)), expected, 1e-5);
  EXPECT_NE(TrainLocally(Job(v1::SequenceData::ACROSS_DOCUMENTS)).values, expected.values);
  // Jobs of earlier releases.
  EXPECT_EQ(TrainLocally(Job(v1::SequenceData::PACKING_UNSPECIFIED)).values,
            TrainLocally(Job(v1::SequenceData::ACROSS_DOCUMENTS)).values);
}

TEST_P(PackedTrainingTest, ByTensorRanks) {
  const v1::JobSpec spec = Job();
  const TrainedValues expected = TrainLocally(spec);
  const v1::JobSpec divided = OnMesh(ByAllReduce(spec), 4, 2);
  ExpectClose(ValuesByAllReduce(divided), expected, 1e-5);
  ExpectClose(ValuesByAllReduce(WithoutSequence(divided)), expected, 1e-5);
  ExpectClose(ValuesOnServers(OnMesh(spec, 2, 2)), expected, 1e-5);
}

TEST_P(PackedTrainingTest, InPipelines) {
  const v1::JobSpec spec = Job();
  const TrainedValues expected = TrainLocally(spec);
  for (const auto schedule : {v1::ParallelismSpec::ONE_F_ONE_B, v1::ParallelismSpec::ZERO_BUBBLE}) {
    SCOPED_TRACE(schedule);
    ExpectClose(ValuesByAllReduce(InPipeline(OnMesh(ByAllReduce(spec), 1, 2), 2, schedule)),
                expected, 1e-5);
  }
  ExpectClose(ValuesOnServers(InPipeline(OnMesh(spec, 1, 1), 2, v1::ParallelismSpec::ONE_F_ONE_B)),
              expected, 1e-5);
}

TEST_P(PackedTrainingTest, RecomputationChangesNoBit) {
  v1::JobSpec spec = Job();
  const TrainedValues expected = TrainLocally(spec);
  for (const auto recompute : {v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL}) {
    spec.mutable_compute()->set_recompute(recompute);
    EXPECT_EQ(TrainLocally(spec).values, expected.values) << recompute;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PackedTrainingTest,
                         ::testing::Values(TensorShape::kGpt2, TensorShape::kLlama),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace muster
