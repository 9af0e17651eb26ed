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

// Documents that fill sequences without a cut teach the same as a stream and as whole documents,
// though these leave their last tokens out and have padding instead.
TEST_P(PackedTrainingTest, WholeDocumentsTeachWhatAStreamWithoutCutsDoes) {
  v1::JobSpec stream = Job();
  const uint32_t T = stream.model().transformer().context();
  ASSERT_EQ(T, 8u);
  const TempFolder documents;
  const std::string text = "the fox number 3 jumps over 17 dogs";
  // Sequences of T, of T - 2 and 2, and of twice T / 2; and a token that follows the last of them.
  int number = 0;
  const auto write = [&](uint32_t length) {
    documents.Write(absl::StrCat(1000 + number), text.substr(number, length));
    ++number;
  };
  for (int i = 0; i < 3; ++i) {
    write(T);
    write(T - 2);
    write(2);
    write(T / 2);
    write(T - T / 2);
  }
  write(1);
  stream.mutable_data()->mutable_sequences()->set_path(documents.path());
  stream.mutable_data()->clear_holdout();
  stream.mutable_model()->mutable_transformer()->clear_dropout();
  stream.mutable_model()->mutable_transformer()->clear_attention_dropout();
  stream.set_batch_size(9);
  v1::JobSpec whole = stream;
  whole.mutable_data()->mutable_sequences()->set_packing(v1::SequenceData::WHOLE_DOCUMENTS);
  // The places of each three are 7 and 1, of others 5 and 3, and three threes are left.
  whole.set_batch_size(8);
  const TrainedValues expected = TrainLocally(stream);
  const TrainedValues trained = TrainLocally(whole);
  ExpectClose(trained, expected, 1e-5);
  ExpectClose(ValuesByAllReduce(OnMesh(ByAllReduce(whole), 2, 3)), trained, 1e-5);
  ExpectClose(ValuesOnServers(whole), trained, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Shapes, PackedTrainingTest,
                         ::testing::Values(TensorShape::kGpt2, TensorShape::kLlama),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace muster
