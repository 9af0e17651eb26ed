#include "server/coordinator/job_validator.h"

#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/test_jobs.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct BadJob {
  const char* name;
  std::function<void(v1::JobSpec&)> spoil;
  Matcher<std::string> message;
};

class BadJobTest : public ::testing::TestWithParam<BadJob> {};

TEST_P(BadJobTest, IsRefusedByName) {
  v1::JobSpec spec = SmallJob();
  GetParam().spoil(spec);
  const absl::Status status = ValidateJob(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadJobTest,
    ::testing::Values(
        BadJob{"NoModel", [](v1::JobSpec& s) { s.clear_model(); },
               AllOf(HasSubstr("model is not set"), HasSubstr("deep_fm"))},
        BadJob{"OneClass", [](v1::JobSpec& s) { s.mutable_model()->mutable_mlp()->set_classes(1); },
               HasSubstr("model.mlp.classes is 1; it must be at least 2")},
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
        BadJob{"UnknownOptimizer", [](v1::JobSpec& s) { s.mutable_optimizer()->set_name("sdg"); },
               AllOf(HasSubstr("optimizer.name is \"sdg\""), HasSubstr("adamw"))},
        BadJob{"UnknownSchedule", [](v1::JobSpec& s) { s.mutable_schedule()->set_name("up"); },
               HasSubstr("schedule.name is \"up\"")},
        BadJob{"NegativeClip", [](v1::JobSpec& s) { s.mutable_clipping()->set_by_value(-1); },
               HasSubstr("clipping.by_value is -1")},
        BadJob{"NormClipUnderSsp",
               [](v1::JobSpec& s) {
                 s.mutable_clipping()->set_by_global_norm(2);
                 s.mutable_update()->set_staleness_bound(4);
               },
               AllOf(HasSubstr("clipping.by_global_norm is 2"), HasSubstr("SSP with bound 4"),
                     HasSubstr("no one gradient"))},
        BadJob{"NormClipUnderAsp",
               [](v1::JobSpec& s) {
                 s.mutable_clipping()->set_by_global_norm(2);
                 s.mutable_update()->set_unlimited_staleness(true);
               },
               HasSubstr("ASP")},
        BadJob{"AllReduce",
               [](v1::JobSpec& s) { s.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE); },
               AllOf(HasSubstr("update.dense is ALL_REDUCE"), HasSubstr("PARAMETER_SERVER only"))},
        BadJob{"NegativeStaleness",
               [](v1::JobSpec& s) { s.mutable_update()->set_staleness_bound(-1); },
               AllOf(HasSubstr("update.staleness_bound is -1"), HasSubstr("unlimited_staleness"))},
        BadJob{"BoundAndUnlimited",
               [](v1::JobSpec& s) {
                 s.mutable_update()->set_staleness_bound(3);
                 s.mutable_update()->set_unlimited_staleness(true);
               },
               HasSubstr("set one of the two")},
        BadJob{"DeterministicAsp",
               [](v1::JobSpec& s) {
                 s.mutable_update()->set_deterministic(true);
                 s.mutable_update()->set_unlimited_staleness(true);
               },
               AllOf(HasSubstr("update.deterministic is true"), HasSubstr("left to chance"))},
        BadJob{"OddBlocks", [](v1::JobSpec& s) { s.mutable_update()->set_block_bytes(1022); },
               HasSubstr("update.block_bytes is 1022")},
        BadJob{"ZeroWorkers", [](v1::JobSpec& s) { s.set_workers(0); },
               HasSubstr("workers is 0; it must be at least 1")},
        BadJob{"BatchBelowWorkers", [](v1::JobSpec& s) { s.set_batch_size(1); },
               AllOf(HasSubstr("batch_size is 1"), HasSubstr("workers, which is 2"))},
        BadJob{"MoreServersThanPartitions", [](v1::JobSpec& s) { s.set_servers(3); },
               HasSubstr("servers is 3; each server holds at least one of the job's 2 partitions")},
        BadJob{"ProductIsNotWorkers",
               [](v1::JobSpec& s) { s.mutable_parallelism()->set_data(4); },
               HasSubstr("parallelism's product is 4; it must equal workers, which is 2")},
        BadJob{"TensorParallel",
               [](v1::JobSpec& s) {
                 s.mutable_parallelism()->set_data(1);
                 s.mutable_parallelism()->set_tensor(2);
               },
               HasSubstr("parallelism.tensor is 2")},
        BadJob{"StepsAndEpochs", [](v1::JobSpec& s) { s.mutable_stop()->set_epochs(2); },
               HasSubstr("stop.steps is 10 and stop.epochs is 2")},
        BadJob{"NoStop", [](v1::JobSpec& s) { s.clear_stop(); }, HasSubstr("both 0")},
        BadJob{"NegativeEpochs",
               [](v1::JobSpec& s) {
                 s.mutable_stop()->set_steps(0);
                 s.mutable_stop()->set_epochs(-1);
               },
               HasSubstr("stop.epochs is -1")},
        BadJob{"NothingToTrainOn", [](v1::JobSpec& s) { s.mutable_data()->set_holdout(1); },
               HasSubstr("nothing to train on")},
        BadJob{"TargetNan", [](v1::JobSpec& s) { s.mutable_stop()->set_target(kNan); },
               HasSubstr("stop.target is nan")}),
    [](const auto& info) { return info.param.name; });

TEST(JobValidatorTest, TakesGoodJobs) {
  EXPECT_TRUE(ValidateJob(SmallJob()).ok()) << ValidateJob(SmallJob());

  v1::JobSpec clicks = SmallJob();
  clicks.mutable_model()->mutable_deep_fm()->set_embedding_dim(4);
  v1::SyntheticClicksData& data = *clicks.mutable_data()->mutable_synthetic_clicks();
  data.set_examples(1000);
  data.set_fields(3);
  data.set_cardinality(50);
  clicks.mutable_evaluation()->set_metric("auc");
  clicks.mutable_update()->set_unlimited_staleness(true);
  EXPECT_TRUE(ValidateJob(clicks).ok()) << ValidateJob(clicks);

  v1::JobSpec only_evaluates = SmallJob();
  only_evaluates.clear_stop();
  only_evaluates.mutable_stop()->set_evaluate_only(true);
  EXPECT_TRUE(ValidateJob(only_evaluates).ok()) << ValidateJob(only_evaluates);
  EXPECT_TRUE(OnlyEvaluates(only_evaluates));
}

TEST(JobValidatorTest, DefaultsAreWrittenOut) {
  v1::JobSpec spec = SmallJob();
  spec.clear_update();
  FillDefaults(spec);
  EXPECT_EQ(spec.update().dense(), v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_EQ(spec.update().durability(), v1::UpdateSpec::CHECKPOINT);
  EXPECT_EQ(spec.update().partitions(), 8);
  EXPECT_EQ(spec.update().block_bytes(), 1 << 20);
  EXPECT_EQ(spec.threads_per_worker(), 1);
  EXPECT_EQ(spec.parallelism().data(), 2);
  EXPECT_EQ(spec.checkpoint().keep(), 2);
  EXPECT_TRUE(ValidateJob(spec).ok());
}

}  // namespace
}  // namespace muster
