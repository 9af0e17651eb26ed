// What ValidateJob says of a job's model, data, evaluation metric, and of where and in what type it
// computes.
#include "common/job/validation/model_validator.h"

#include "common/job/test_jobs.h"
#include "common/job/validation/bad_job_for_testing.h"
#include "common/job/validation/job_validator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Makes the job one of a transformer that is valid.
v1::TransformerSpec& Transformer(v1::JobSpec& spec) {
  spec.mutable_data()->mutable_sequences()->set_path("p");
  v1::TransformerSpec& transformer = *spec.mutable_model()->mutable_transformer();
  transformer.set_layers(2);
  transformer.set_width(64);
  transformer.set_heads(4);
  transformer.set_context(32);
  return transformer;
}

// Makes the job one that predicts a number from a table, and is valid.
v1::RegressionSpec& DeepFmRegression(v1::JobSpec& spec) {
  v1::CsvData& csv = *spec.mutable_data()->mutable_csv();
  csv.set_path("p");
  csv.set_label("y");
  csv.add_categorical("c");
  v1::DeepFmSpec& deep_fm = *spec.mutable_model()->mutable_deep_fm();
  deep_fm.set_embedding_dim(4);
  deep_fm.add_hidden(8);
  return *deep_fm.mutable_regression();
}

TEST(ModelValidatorTest, TakesRegressionOfTables) {
  v1::JobSpec spec = SmallJob();
  v1::RegressionSpec& regression = DeepFmRegression(spec);
  for (const char* metric : {"", "loss", "rmse", "mae", "r2"}) {
    spec.mutable_evaluation()->set_metric(metric);
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << metric;
  }
  regression.set_loss(v1::RegressionSpec::HUBER);
  regression.set_huber_delta(0.5f);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_data()->mutable_csv()->clear_categorical();
  spec.mutable_data()->mutable_csv()->add_numeric("x");
  spec.mutable_model()->mutable_mlp()->mutable_regression()->set_loss(v1::RegressionSpec::ABSOLUTE);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_model()->mutable_linear_regression();
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_data()->mutable_libsvm()->set_path("p");
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
}

class BadModelTest : public ::testing::TestWithParam<BadJob> {};

TEST_P(BadModelTest, IsRefusedByName) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, BadModelTest,
    ::testing::Values(
        BadJob{"NoModel", [](v1::JobSpec& s) { s.clear_model(); },
               AllOf(HasSubstr("model is not set"), HasSubstr("deep_fm"))},
        BadJob{"OneClass", [](v1::JobSpec& s) { s.mutable_model()->mutable_mlp()->set_classes(1); },
               HasSubstr("model.mlp.classes is 1; it must be from 2 to 65536")},
        BadJob{"HugeLayer",
               [](v1::JobSpec& s) { s.mutable_model()->mutable_mlp()->set_hidden(0, 1u << 31); },
               HasSubstr("model.mlp.hidden[0] is 2147483648; it must be from 1 to 65536")},
        BadJob{"EmptyLayer",
               [](v1::JobSpec& s) { s.mutable_model()->mutable_mlp()->set_hidden(0, 0); },
               HasSubstr("model.mlp.hidden[0] is 0")},
        BadJob{"NoData", [](v1::JobSpec& s) { s.clear_data(); }, HasSubstr("data is without")},
        BadJob{"NoPath", [](v1::JobSpec& s) { s.mutable_data()->mutable_idx(); },
               HasSubstr("data.idx.images is empty")},
        BadJob{"ColumnTwice",
               [](v1::JobSpec& s) {
                 v1::CsvData& csv = *s.mutable_data()->mutable_csv();
                 csv.set_path("p");
                 csv.set_label("y");
                 csv.add_numeric("y");
               },
               HasSubstr("\"y\" twice")},
        BadJob{"SeparatorOfTwoCharacters",
               [](v1::JobSpec& s) {
                 v1::CsvData& csv = *s.mutable_data()->mutable_csv();
                 csv.set_path("p");
                 csv.set_label("y");
                 csv.add_numeric("x");
                 csv.set_separator("\\t");
               },
               AllOf(HasSubstr("data.csv.separator is \"\\\\t\""), HasSubstr("one character"))},
        BadJob{"NamesWithoutAHeader",
               [](v1::JobSpec& s) {
                 v1::CsvData& csv = *s.mutable_data()->mutable_csv();
                 csv.set_path("p");
                 csv.set_label("1");
                 csv.add_numeric("age");
                 csv.set_no_header(true);
               },
               AllOf(HasSubstr("column \"age\""), HasSubstr("columns go by their numbers"))},
        BadJob{"DataOfAnotherKind",
               [](v1::JobSpec& s) { s.mutable_data()->mutable_text()->set_path("p"); },
               AllOf(HasSubstr("data is text"), HasSubstr("synthetic_classification"))},
        BadJob{"MetricThatDoesNotFit",
               [](v1::JobSpec& s) { s.mutable_evaluation()->set_metric("bits_per_byte"); },
               AllOf(HasSubstr("evaluation.metric is \"bits_per_byte\""),
                     HasSubstr("loss, accuracy"))},
        BadJob{"AucOfManyClasses",
               [](v1::JobSpec& s) {
                 s.mutable_model()->mutable_logistic_regression()->set_classes(3);
                 s.mutable_data()->mutable_libsvm()->set_path("p");
                 s.mutable_evaluation()->set_metric("auc");
               },
               HasSubstr("multinomial logistic_regression is measured by one of loss, accuracy")},
        BadJob{"ClassesOfRegression",
               [](v1::JobSpec& s) { s.mutable_model()->mutable_mlp()->mutable_regression(); },
               HasSubstr("model.mlp.classes is 3; but model.mlp.regression predicts a number")},
        BadJob{"RegressionOnClasses",
               [](v1::JobSpec& s) {
                 s.mutable_model()->mutable_mlp()->clear_classes();
                 s.mutable_model()->mutable_mlp()->mutable_regression();
               },
               HasSubstr("data is synthetic_classification; model mlp with regression reads one of "
                         "csv")},
        BadJob{"LinearRegressionOnClicks",
               [](v1::JobSpec& s) {
                 s.mutable_model()->mutable_linear_regression();
                 s.mutable_data()->mutable_synthetic_clicks()->set_examples(10);
                 s.mutable_data()->mutable_synthetic_clicks()->set_numeric(1);
               },
               HasSubstr("data is synthetic_clicks; model linear_regression reads one of libsvm, "
                         "csv")},
        BadJob{"DeepFmRegressionOnLibsvm",
               [](v1::JobSpec& s) {
                 DeepFmRegression(s);
                 s.mutable_data()->mutable_libsvm()->set_path("p");
               },
               HasSubstr("data is libsvm; model deep_fm with regression reads one of csv")},
        BadJob{"DeepFmRegressionOnLibffm",
               [](v1::JobSpec& s) {
                 DeepFmRegression(s);
                 s.mutable_data()->mutable_libffm()->set_path("p");
               },
               HasSubstr("data is libffm; model deep_fm with regression reads one of csv")},
        BadJob{"LibffmWithoutPath",
               [](v1::JobSpec& s) { s.mutable_data()->mutable_libffm(); },
               HasSubstr("data.libffm.path")},
        BadJob{"ValidationOfClasses",
               [](v1::JobSpec& s) {
                 DeepFmRegression(s);
                 s.mutable_validation()->mutable_idx()->set_images("i");
                 s.mutable_validation()->mutable_idx()->set_labels("l");
               },
               HasSubstr("validation is idx; model deep_fm with regression reads one of csv")},
        BadJob{"AccuracyOfANumber",
               [](v1::JobSpec& s) {
                 DeepFmRegression(s);
                 s.mutable_evaluation()->set_metric("accuracy");
               },
               HasSubstr("deep_fm with regression is measured by one of loss, rmse, mae, r2")},
        BadJob{"RmseOfClasses",
               [](v1::JobSpec& s) { s.mutable_evaluation()->set_metric("rmse"); },
               HasSubstr("model mlp is measured by one of loss, accuracy")},
        BadJob{"UnknownRegressionLoss",
               [](v1::JobSpec& s) {
                 DeepFmRegression(s).set_loss(static_cast<v1::RegressionSpec::Loss>(9));
               },
               HasSubstr("model.deep_fm.regression.loss is 9")},
        BadJob{"NegativeHuberDelta",
               [](v1::JobSpec& s) {
                 DeepFmRegression(s).set_loss(v1::RegressionSpec::HUBER);
                 s.mutable_model()->mutable_deep_fm()->mutable_regression()->set_huber_delta(-1);
               },
               HasSubstr("model.deep_fm.regression.huber_delta is -1")},
        BadJob{"HuberDeltaOfAnotherLoss",
               [](v1::JobSpec& s) { DeepFmRegression(s).set_huber_delta(2); },
               HasSubstr("model.deep_fm.regression.huber_delta is 2; but "
                         "model.deep_fm.regression.loss is not HUBER")},
        BadJob{"Bf16OfAnMlp",
               [](v1::JobSpec& s) { s.mutable_compute()->set_type(v1::ComputeSpec::BF16); },
               AllOf(HasSubstr("compute.type is BF16"), HasSubstr("model.transformer"))},
        BadJob{"RecomputationOfAnMlp",
               [](v1::JobSpec& s) {
                 s.mutable_compute()->set_recompute(v1::ComputeSpec::SELECTIVE);
               },
               HasSubstr("compute.recompute is SELECTIVE")},
        BadJob{"UnknownComputeType",
               [](v1::JobSpec& s) {
                 s.mutable_compute()->set_type(static_cast<v1::ComputeSpec::Type>(9));
               },
               HasSubstr("compute.type is 9; it must be F32, BF16 or F16")},
        BadJob{"ScaledLossInBf16",
               [](v1::JobSpec& s) {
                 Transformer(s);
                 s.mutable_compute()->set_type(v1::ComputeSpec::BF16);
                 s.mutable_compute()->set_loss_scale(8);
               },
               AllOf(HasSubstr("compute.loss_scale is 8"), HasSubstr("compute.type is BF16"))},
        BadJob{"PeakOfAnotherModel",
               [](v1::JobSpec& s) { s.mutable_compute()->set_peak_flops(1e12); },
               AllOf(HasSubstr("compute.peak_flops is 1e+12"), HasSubstr("model.transformer"))},
        BadJob{"NegativePeak",
               [](v1::JobSpec& s) {
                 Transformer(s);
                 s.mutable_compute()->set_peak_flops(-1);
               },
               HasSubstr("compute.peak_flops is -1")},
        BadJob{"LossScaleWindowInF32",
               [](v1::JobSpec& s) { s.mutable_compute()->set_loss_scale_window(100); },
               HasSubstr("compute.loss_scale_window is 100")},
        BadJob{"LossScaleThatIsNoPowerOfTwo",
               [](v1::JobSpec& s) {
                 Transformer(s);
                 s.mutable_compute()->set_type(v1::ComputeSpec::F16);
                 s.mutable_compute()->set_loss_scale(1000);
               },
               HasSubstr("compute.loss_scale is 1000; it must be a power of two from 1 to")},
        BadJob{"FixedLossScaleWithWindow",
               [](v1::JobSpec& s) {
                 Transformer(s);
                 s.mutable_compute()->set_type(v1::ComputeSpec::F16);
                 s.mutable_compute()->set_loss_scale(1024);
                 s.mutable_compute()->set_loss_scale_window(100);
               },
               HasSubstr("compute.loss_scale_window is 100; but compute.loss_scale is given")},
        BadJob{"F16OfAnMlp",
               [](v1::JobSpec& s) { s.mutable_compute()->set_type(v1::ComputeSpec::F16); },
               AllOf(HasSubstr("compute.type is F16"), HasSubstr("model.transformer"))},
        BadJob{"PaddingOfAnUnknownVocabulary",
               [](v1::JobSpec& s) {
                 Transformer(s).set_vocabulary(0);
                 s.mutable_model()->mutable_transformer()->set_pad_vocabulary_to(64);
               },
               HasSubstr("model.transformer.pad_vocabulary_to is 64; but "
                         "model.transformer.vocabulary is left out")},
        BadJob{"WidthOfOddHeads", [](v1::JobSpec& s) { Transformer(s).set_heads(5); },
               HasSubstr("model.transformer.width is 64; it must be a multiple of "
                         "model.transformer.heads, which is 5")},
        BadJob{"HeadsOfOddGroups", [](v1::JobSpec& s) { Transformer(s).set_kv_heads(3); },
               HasSubstr("model.transformer.heads is 4")},
        BadJob{"NoContext", [](v1::JobSpec& s) { Transformer(s).set_context(0); },
               HasSubstr("model.transformer.context is 0")},
        BadJob{"DropsAll", [](v1::JobSpec& s) { Transformer(s).set_dropout(1); },
               HasSubstr("model.transformer.dropout is 1")},
        BadJob{"DropsMoreThanItCanTellApart",
               [](v1::JobSpec& s) {
                 v1::TransformerSpec& model = Transformer(s);
                 model.set_dropout(0.1f);
                 model.set_context(1 << 20);
                 model.set_width((1 << 15) + 256);
                 model.set_heads(129);
               },
               HasSubstr("model.transformer.dropout is 0.1; but context · width is 34628173824")},
        BadJob{"SmoothsLabelsAway", [](v1::JobSpec& s) { Transformer(s).set_label_smoothing(1); },
               HasSubstr("model.transformer.label_smoothing is 1")},
        BadJob{"RewardsLargeLogits", [](v1::JobSpec& s) { Transformer(s).set_z_loss(-1e-4f); },
               AllOf(HasSubstr("model.transformer.z_loss is -0.0001"), HasSubstr("at least 0"))},
        BadJob{"DropsBelowNothing", [](v1::JobSpec& s) { Transformer(s).set_attention_dropout(-1); },
               HasSubstr("model.transformer.attention_dropout is -1")},
        BadJob{"ShapeOfAFileThatIsElsewhere",
               [](v1::JobSpec& s) { Transformer(s).set_from("config.json"); },
               HasSubstr("model.transformer.from is \"config.json\"; only `muster` reads it")},
        BadJob{"SequencesOfNothing",
               [](v1::JobSpec& s) {
                 Transformer(s);
                 s.mutable_data()->mutable_sequences()->clear_path();
               },
               HasSubstr("data.sequences.path is empty")},
        BadJob{"PackingOfALaterRelease",
               [](v1::JobSpec& s) {
                 Transformer(s);
                 s.mutable_data()->mutable_sequences()->set_packing(
                     static_cast<v1::SequenceData::Packing>(9));
               },
               HasSubstr("data.sequences.packing is 9")},
        BadJob{"TransformerOfRows",
               [](v1::JobSpec& s) {
                 Transformer(s);
                 s.mutable_data()->mutable_text()->set_path("p");
               },
               AllOf(HasSubstr("data is text"), HasSubstr("sequences"))},
        BadJob{"HoldoutAboveOne", [](v1::JobSpec& s) { s.mutable_data()->set_holdout(1.5); },
               HasSubstr("data.holdout is 1.5")},
        BadJob{"HoldoutNan", [](v1::JobSpec& s) { s.mutable_data()->set_holdout(kNan); },
               HasSubstr("data.holdout is nan")},
        BadJob{"EvaluationOfNothing",
               [](v1::JobSpec& s) {
                 s.mutable_data()->set_holdout(0);
                 s.mutable_evaluation()->set_every_steps(5);
               },
               HasSubstr("nothing to evaluate")},
        BadJob{"MisspeltMetric",
               [](v1::JobSpec& s) { s.mutable_evaluation()->set_metric("acuracy"); },
               HasSubstr("; did you mean \"accuracy\"?")}),
    [](const auto& info) { return info.param.name; });

TEST(ModelValidatorTest, TransformersComputeAsTheySay) {
  v1::JobSpec spec = SmallJob();
  Transformer(spec);
  spec.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  spec.mutable_compute()->set_recompute(v1::ComputeSpec::FULL);
  spec.mutable_evaluation()->set_metric("perplexity");
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_compute()->set_type(v1::ComputeSpec::F16);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_compute()->set_loss_scale_window(10);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_compute()->clear_loss_scale_window();
  spec.mutable_compute()->set_loss_scale(1024);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  spec.mutable_model()->mutable_transformer()->set_vocabulary(50257);
  spec.mutable_model()->mutable_transformer()->set_pad_vocabulary_to(64);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
}

TEST(ModelValidatorTest, DevicesTakeBothRoads) {
  v1::JobSpec spec = SmallJob();
  OnDevices(spec, v1::UpdateSpec::ALL_REDUCE);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  OnDevices(spec, v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_optimizer()->set_name("adagrad");
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << "there servers do all that devices do not";
}

}  // namespace
}  // namespace muster
