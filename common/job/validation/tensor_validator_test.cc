#include "common/job/validation/tensor_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/job/job_road.h"
#include "common/job/test_jobs.h"
#include "common/job/validation/job_validator.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;

v1::TransformerSpec& TransformerOf(v1::JobSpec& spec) {
  return *spec.mutable_model()->mutable_transformer();
}

// A transformer of 6 heads on 4 workers, two of which divide each layer.
v1::JobSpec TensorJob() {
  v1::JobSpec spec = AllReduceJob();
  spec.set_workers(4);
  spec.mutable_data()->mutable_sequences()->set_path("p");
  TransformerOf(spec).set_layers(2);
  TransformerOf(spec).set_width(48);
  TransformerOf(spec).set_heads(6);
  TransformerOf(spec).set_context(8);
  TransformerOf(spec).set_vocabulary(96);
  spec.mutable_parallelism()->set_tensor(2);
  return spec;
}

v1::JobSpec TensorMlp() {
  v1::JobSpec spec = AllReduceJob();
  spec.mutable_parallelism()->set_tensor(2);
  return spec;
}

void Expect(const v1::JobSpec& spec, const Matcher<std::string>& message) {
  // The job's validator calls this one.
  for (const absl::Status& status : {ValidateTensor(spec), ValidateJob(spec)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), message);
  }
}

struct GoodTensor {
  const char* name;
  std::function<void(v1::JobSpec&)> change;
};

class GoodTensorTest : public ::testing::TestWithParam<GoodTensor> {};

TEST_P(GoodTensorTest, IsAccepted) {
  v1::JobSpec spec = TensorJob();
  GetParam().change(spec);
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, GoodTensorTest,
    ::testing::Values(
        GoodTensor{"Plain", [](v1::JobSpec&) {}},
        GoodTensor{"WithoutSequence",
                   [](v1::JobSpec& s) { s.mutable_parallelism()->set_sequence(false); }},
        GoodTensor{"FewerKeyValueHeadsThanRanks",
                   [](v1::JobSpec& s) { TransformerOf(s).set_kv_heads(1); }},
        GoodTensor{"KeyValueHeadsDivide", [](v1::JobSpec& s) { TransformerOf(s).set_kv_heads(2); }},
        GoodTensor{"PaddedVocabulary",
                   [](v1::JobSpec& s) {
                     TransformerOf(s).set_vocabulary(97);
                     TransformerOf(s).set_pad_vocabulary_to(2);
                   }},
        GoodTensor{"VocabularyFromData",
                   [](v1::JobSpec& s) { TransformerOf(s).set_vocabulary(0); }},
        GoodTensor{"Sharded",
                   [](v1::JobSpec& s) {
                     s.mutable_parallelism()->mutable_zero()->set_stage(3);
                     s.mutable_parallelism()->mutable_zero()->set_shard(2);
                   }},
        GoodTensor{"Devices",
                   [](v1::JobSpec& s) {
                     s.mutable_optimizer()->set_name("adamw");
                     s.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
                     s.mutable_parallelism()->mutable_zero()->set_stage(2);
                   }},
        GoodTensor{"WholeDataRanksMayLeave", [](v1::JobSpec& s) { s.set_min_workers(2); }},
        GoodTensor{"OthersDivideTheirShardsAnew",
                   [](v1::JobSpec& s) {
                     s.set_min_workers(2);
                     s.mutable_parallelism()->mutable_zero()->set_stage(1);
                   }},
        GoodTensor{"AllWorkersTogether",
                   [](v1::JobSpec& s) {
                     s.set_workers(6);
                     s.mutable_parallelism()->set_tensor(6);
                   }}),
    [](const auto& info) { return info.param.name; });

struct BadTensor {
  const char* name;
  std::function<void(v1::JobSpec&)> spoil;
  Matcher<std::string> message;
};

class BadTensorTest : public ::testing::TestWithParam<BadTensor> {};

TEST_P(BadTensorTest, IsRefusedByName) {
  v1::JobSpec spec = TensorJob();
  GetParam().spoil(spec);
  Expect(spec, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, BadTensorTest,
    ::testing::Values(
        BadTensor{"Heads", [](v1::JobSpec& s) { s.mutable_parallelism()->set_tensor(4); },
                  AllOf(HasSubstr("parallelism.tensor is 4; but model.transformer.heads is 6"),
                        HasSubstr("take one of 2, 3, 6"))},
        BadTensor{"KeyValueHeads", [](v1::JobSpec& s) { TransformerOf(s).set_kv_heads(3); },
                  HasSubstr("parallelism.tensor is 2; but model.transformer.kv_heads is 3")},
        BadTensor{
            "FeedForward", [](v1::JobSpec& s) { TransformerOf(s).set_feed_forward(95); },
            AllOf(HasSubstr("parallelism.tensor is 2; but model.transformer.feed_forward is 95"),
                  HasSubstr("take one of 5, 19, 95"))},
        BadTensor{"Vocabulary", [](v1::JobSpec& s) { TransformerOf(s).set_vocabulary(97); },
                  AllOf(HasSubstr("model.transformer.vocabulary is 97; which makes 97 rows"),
                        HasSubstr("pad_vocabulary_to to a multiple of 2"))},
        BadTensor{"PaddedVocabulary",
                  [](v1::JobSpec& s) {
                    TransformerOf(s).set_vocabulary(97);
                    TransformerOf(s).set_pad_vocabulary_to(3);
                  },
                  HasSubstr("which makes 99 rows")},
        BadTensor{"RoundedPushes",
                  [](v1::JobSpec& s) {
                    s.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                    s.mutable_update()->set_wire(v1::UpdateSpec::BF16);
                  },
                  HasSubstr("update.wire is BF16; but update.dense is PARAMETER_SERVER and "
                            "parallelism.tensor 2")},
        BadTensor{"Staleness",
                  [](v1::JobSpec& s) {
                    s.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                    s.mutable_update()->set_staleness_bound(1);
                  },
                  AllOf(HasSubstr("must read one version"), HasSubstr("staleness_bound 0"))},
        BadTensor{"Asp",
                  [](v1::JobSpec& s) {
                    s.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                    s.mutable_update()->set_unlimited_staleness(true);
                  },
                  HasSubstr("must read one version")},
        BadTensor{"PartOfADataRank", [](v1::JobSpec& s) { s.set_min_workers(3); },
                  AllOf(HasSubstr("min_workers is 3; "), HasSubstr("multiple of 2"))},
        BadTensor{"SequenceAlone",
                  [](v1::JobSpec& s) {
                    s.mutable_parallelism()->clear_tensor();
                    s.mutable_parallelism()->set_sequence(false);
                  },
                  HasSubstr("parallelism.sequence is false; but parallelism.tensor is 1")}),
    [](const auto& info) { return info.param.name; });

TEST(TensorValidatorTest, PerceptronsAreDividedInPairsOfLayers) {
  v1::JobSpec spec = TensorMlp();
  v1::MlpSpec& mlp = *spec.mutable_model()->mutable_mlp();
  mlp.clear_hidden();
  for (const uint32_t width : {16, 9, 24}) mlp.add_hidden(width);
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
  mlp.set_hidden(2, 25);
  Expect(spec, HasSubstr("parallelism.tensor is 2; but model.mlp.hidden[2] is 25"));
  spec = TensorMlp();
  spec.mutable_parallelism()->set_sequence(true);
  Expect(spec, HasSubstr("parallelism.sequence is true; but only model.transformer has tokens"));
}

TEST(TensorValidatorTest, OtherModelsAreNotDivided) {
  v1::JobSpec spec = HybridJob();
  spec.mutable_parallelism()->set_tensor(2);
  Expect(spec, HasSubstr("but only layers of model.transformer and model.mlp are divided"));
}

TEST(TensorValidatorTest, ServersHaveNoWholeMatrices) {
  v1::JobSpec spec = TensorMlp();
  spec.mutable_optimizer()->set_name("muon");
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  Expect(spec, HasSubstr("parallelism.tensor is 2; but optimizer.name is muon"));
}

TEST(TensorValidatorTest, ALossIsFinalWhereNoOtherDataRankHasTheShare) {
  v1::JobSpec spec = TensorJob();
  EXPECT_FALSE(LossIsFinal(spec)) << "the other data rank has the same";
  spec.set_workers(2);
  EXPECT_TRUE(LossIsFinal(spec));
}

TEST(TensorValidatorTest, TheDivisionHasAName) {
  v1::JobSpec spec = TensorJob();
  EXPECT_EQ(DivisionName(spec), "tensor 2 with sequence");
  spec.mutable_parallelism()->mutable_zero()->set_stage(1);
  spec.mutable_parallelism()->set_sequence(false);
  EXPECT_EQ(PolicyName(spec), "all-reduce, zero stage 1 over 2 ranks, tensor 2");
}

}  // namespace
}  // namespace muster
