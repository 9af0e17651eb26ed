#include "worker/runtime/training/evaluator.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/eval/auc.h"
#include "common/eval/confusion.h"
#include "common/eval/metric.h"
#include "common/files/temp_folder.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/step_executor.h"
#include "worker/strategy/local_strategy_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// Binary classification on a synthetic click log.
v1::JobSpec ClicksSpec(uint64_t examples) {
  v1::JobSpec spec;
  spec.mutable_model()->mutable_logistic_regression();
  v1::SyntheticClicksData* clicks = spec.mutable_data()->mutable_synthetic_clicks();
  clicks->set_examples(examples);
  clicks->set_fields(3);
  clicks->set_cardinality(20);
  clicks->set_seed(1);
  spec.mutable_data()->set_holdout(1);
  spec.mutable_stop()->set_evaluate_only(true);
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_learning_rate(0.1);
  spec.set_workers(1);
  spec.set_batch_size(1);
  return spec;
}

class EvaluatorTest : public ::testing::Test {
 protected:
  absl::StatusOr<v1::ReportEvaluationRequest> Evaluate(const v1::JobSpec& spec, int data_rank,
                                                       int data_ranks) {
    PreparedJob job = PrepareJob(spec).value();
    auto strategy = LocalStrategy::Create(*job.schema).value();
    absl::StatusOr<std::unique_ptr<Evaluator>> evaluator =
        Evaluator::Create(spec, job.evaluated, data_rank, data_ranks, job.evaluation_data(),
                          job.model->description());
    if (!evaluator.ok()) return evaluator.status();
    v1::ReportEvaluationRequest report;
    // The clock is only told; parameters are those at the start.
    StepExecutor engine(spec, *job.model, *strategy);
    absl::Status status = engine.BeginEvaluation(0);
    if (status.ok()) status = (*evaluator)->Evaluate(3, engine, report);
    if (!status.ok()) return status;
    return report;
  }
};

TEST_F(EvaluatorTest, ValidationDataAreEvaluatedInPlaceOfAHoldout) {
  v1::JobSpec spec = ClicksSpec(100);
  spec.mutable_evaluation()->set_metric("loss");
  const uint64_t without = PrepareJob(spec).value().data_fingerprint();
  *spec.mutable_validation() = spec.data();
  spec.mutable_data()->set_holdout(0);
  spec.mutable_validation()->clear_holdout();
  spec.mutable_validation()->mutable_synthetic_clicks()->set_examples(30);
  EXPECT_EQ(Evaluate(spec, 0, 1).value().examples(), 30);
  EXPECT_NE(PrepareJob(spec).value().data_fingerprint(), without);
  EXPECT_EQ(Evaluate(spec, 1, 4).value().examples(), 8);

  spec.mutable_validation()->mutable_synthetic_clicks()->set_fields(4);
  const absl::Status other = PrepareJob(spec).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()), HasSubstr("validation data have 4 fields"));
}

TEST_F(EvaluatorTest, ARandomShareIsDrawnByTheSeed) {
  v1::JobSpec spec = ClicksSpec(2000);
  spec.mutable_data()->set_holdout(0.5);
  spec.mutable_data()->set_shuffle_holdout(true);
  const auto drawn = [&](uint64_t seed) {
    spec.set_seed(seed);
    const v1::ReportEvaluationRequest report = Evaluate(spec, 0, 1).value();
    EXPECT_EQ(report.examples(), 1000);
    return report.correct();
  };
  spec.mutable_evaluation()->set_metric("accuracy");
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_TRUE(drawn(1) != drawn(2) || drawn(1) != drawn(3)) << "the shares are the same";
}

TEST_F(EvaluatorTest, SharesOfAllSlotsAddUpToTheWhole) {
  // More than one pass of 1024 examples each.
  v1::JobSpec spec = ClicksSpec(2500);
  spec.mutable_evaluation()->set_metric("loss");
  v1::ReportEvaluationRequest whole = Evaluate(spec, 0, 1).value();
  EXPECT_EQ(whole.clock(), 3);
  EXPECT_EQ(whole.metric(), "loss");
  EXPECT_EQ(whole.examples(), 2500);
  uint64_t examples = 0, correct = 0;
  double loss_sum = 0;
  for (int slot = 0; slot < 3; ++slot) {
    v1::ReportEvaluationRequest share = Evaluate(spec, slot, 3).value();
    examples += share.examples();
    correct += share.correct();
    loss_sum += share.loss_sum();
  }
  EXPECT_EQ(examples, 2500);
  EXPECT_EQ(correct, whole.correct());
  EXPECT_NEAR(loss_sum, whole.loss_sum(), 1e-6 * whole.loss_sum());
}

// The text begins with words of many bytes a token and ends with digits of one: the held-out end
// has as many bytes as labels, however long tokens are elsewhere.
TEST_F(EvaluatorTest, CountsTheBytesOfWhatItEvaluates) {
  BpeTrainer trainer;
  for (int i = 0; i < 50; ++i) trainer.Add("some words are here");
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "some words are here";
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('0' + i % 10);
  v1::JobSpec spec = ClicksSpec(1);
  v1::TransformerSpec* transformer = spec.mutable_model()->mutable_transformer();
  transformer->set_layers(1);
  transformer->set_width(8);
  transformer->set_heads(1);
  transformer->set_context(4);
  v1::SequenceData* sequences = spec.mutable_data()->mutable_sequences();
  sequences->set_path(folder.Write("text", text));
  sequences->set_tokenizer(folder.Write("tokenizer.json", WriteBpeJson(*trainer.Train(280))));
  const auto of_all = Evaluate(spec, 0, 1);
  ASSERT_TRUE(of_all.ok()) << of_all.status();
  EXPECT_FALSE(of_all->has_confusion()) << "tokens are no classes";
  EXPECT_GT(of_all->text_bytes(), 2 * of_all->loss_weight());
  spec.mutable_data()->set_holdout(0.5);
  const auto of_digits = Evaluate(spec, 0, 1);
  ASSERT_TRUE(of_digits.ok()) << of_digits.status();
  EXPECT_GT(of_digits->loss_weight(), 100);
  EXPECT_EQ(of_digits->text_bytes(), of_digits->loss_weight());
}

TEST_F(EvaluatorTest, AucSendsAScoreAndALabelPerExample) {
  v1::JobSpec spec = ClicksSpec(1500);
  spec.mutable_evaluation()->set_metric("auc");
  v1::ReportEvaluationRequest report = Evaluate(spec, 0, 1).value();
  EXPECT_EQ(report.metric(), "auc");
  ASSERT_EQ(report.scores().size(), 1500 * sizeof(float));
  ASSERT_EQ(report.labels().size(), 1500);
  for (char label : report.labels()) EXPECT_TRUE(label == 0 || label == 1);
}

TEST_F(EvaluatorTest, BinnedAucCountsTheSameExamples) {
  v1::JobSpec spec = ClicksSpec(1500);
  spec.mutable_evaluation()->set_metric("auc");
  v1::ReportEvaluationRequest exact = Evaluate(spec, 0, 1).value();
  spec.mutable_evaluation()->set_metric("binned_auc");
  v1::ReportEvaluationRequest binned = Evaluate(spec, 0, 1).value();
  EXPECT_EQ(binned.scores().size(), 0);
  std::vector<float> scores(1500);
  std::memcpy(scores.data(), exact.scores().data(), exact.scores().size());
  std::vector<uint8_t> labels(exact.labels().begin(), exact.labels().end());
  ScoreBins bins;
  ASSERT_EQ(AddToBins(scores, labels, bins), absl::OkStatus());
  EXPECT_EQ(std::vector<uint64_t>(binned.positive_bins().begin(), binned.positive_bins().end()),
            bins.positive);
  EXPECT_EQ(std::vector<uint64_t>(binned.negative_bins().begin(), binned.negative_bins().end()),
            bins.negative);
}

// Returns what a report says of the errors.
RegressionSums SumsOf(const v1::ReportEvaluationRequest& report) {
  const v1::ErrorSums& errors = report.errors();
  return {.squared_errors = errors.squared_errors(),
          .absolute_errors = errors.absolute_errors(),
          .deviations = errors.deviations(),
          .squared_deviations = errors.squared_deviations()};
}

// Linear regression, untrained: it predicts the targets' mean in training, 20.
v1::JobSpec NumbersSpec(const std::string& path) {
  v1::JobSpec spec = ClicksSpec(1);
  spec.mutable_model()->mutable_linear_regression();
  v1::CsvData* csv = spec.mutable_data()->mutable_csv();
  csv->set_path(path);
  csv->set_label("price");
  csv->add_numeric("n");
  spec.mutable_data()->set_holdout(0.5);
  return spec;
}

TEST_F(EvaluatorTest, ErrorsAreInTheTargetsOwnUnit) {
  const TempFolder folder;
  // The targets that are held out are 21, 14 and 26: 1, -6 and 6 from the mean in training.
  v1::JobSpec spec =
      NumbersSpec(folder.Write("a.csv", "n,price\n1,10\n2,30\n3,20\n4,21\n5,14\n6,26\n"));
  const auto value = [&](const std::string& metric) {
    spec.mutable_evaluation()->set_metric(metric);
    const v1::ReportEvaluationRequest whole = Evaluate(spec, 0, 1).value();
    EXPECT_EQ(whole.examples(), 3);
    const EvaluationSums sums = {.labels = whole.examples(), .regression = SumsOf(whole)};
    // However the examples are divided, the sums add up to the same.
    EvaluationSums of_slots = {.labels = whole.examples()};
    for (int slot = 0; slot < 4; ++slot) {
      const RegressionSums share = SumsOf(Evaluate(spec, slot, 4).value());
      of_slots.regression.squared_errors += share.squared_errors;
      of_slots.regression.absolute_errors += share.absolute_errors;
      of_slots.regression.deviations += share.deviations;
      of_slots.regression.squared_deviations += share.squared_deviations;
    }
    EXPECT_NEAR(MetricFromSums(whole.metric(), of_slots).value(),
                MetricFromSums(whole.metric(), sums).value(), 1e-9);
    return MetricFromSums(whole.metric(), sums).value();
  };
  EXPECT_NEAR(value("rmse"), std::sqrt(73.0 / 3), 1e-5);
  EXPECT_NEAR(value("mae"), 13.0 / 3, 1e-5);
  // From their own mean, 61 / 3, they deviate by 2 / 3, -19 / 3 and 17 / 3.
  EXPECT_NEAR(value("r2"), 1 - 73 / (654.0 / 9), 1e-5);
  EXPECT_EQ(value(""), value("rmse")) << "the usual metric";
  // The loss is of the normalised target, whose unit is the deviation in training.
  spec.mutable_evaluation()->set_metric("loss");
  const v1::ReportEvaluationRequest report = Evaluate(spec, 0, 1).value();
  EXPECT_NEAR(report.loss_sum(), 73 / (200.0 / 3) / 2, 1e-5);
  EXPECT_FALSE(report.has_errors());
  EXPECT_FALSE(report.has_confusion());
  EXPECT_EQ(report.scores(), "");
}

TEST_F(EvaluatorTest, ValidationTargetsAreNormalisedAsTrainingTargetsAre) {
  const TempFolder folder;
  v1::JobSpec spec = NumbersSpec(folder.Write("a.csv", "n,price\n1,10\n2,30\n"));
  spec.mutable_data()->set_holdout(0);
  *spec.mutable_validation() = spec.data();
  spec.mutable_validation()->mutable_csv()->set_path(
      folder.Write("b.csv", "n,price\n1,1020\n2,1020\n"));
  const v1::ReportEvaluationRequest report = Evaluate(spec, 0, 1).value();
  const RegressionSums sums = SumsOf(report);
  EXPECT_NEAR(sums.absolute_errors, 2000, 1e-3);
  EXPECT_NEAR(sums.deviations, 2000, 1e-3);
}

TEST_F(EvaluatorTest, MaxExamplesBoundsAllSlotsTogether) {
  v1::JobSpec spec = ClicksSpec(1000);
  spec.mutable_evaluation()->set_max_examples(101);
  EXPECT_EQ(Evaluate(spec, 0, 2)->examples() + Evaluate(spec, 1, 2)->examples(), 101);
}

TEST_F(EvaluatorTest, ASlotWithoutExamplesReportsZeros) {
  v1::JobSpec spec = ClicksSpec(1000);
  spec.mutable_evaluation()->set_max_examples(1);
  v1::ReportEvaluationRequest first = Evaluate(spec, 0, 2).value();
  v1::ReportEvaluationRequest second = Evaluate(spec, 1, 2).value();
  EXPECT_EQ(first.examples() + second.examples(), 1);
  spec.mutable_evaluation()->set_metric("binned_auc");
  EXPECT_EQ(Evaluate(spec, 0, 2)->positive_bins_size(), Evaluate(spec, 1, 2)->positive_bins_size());
}

// Counts the examples of the batches that it is given.
class CountingEngine final : public StepEngine {
 public:
  explicit CountingEngine(int64_t most_examples) : most_examples_(most_examples) {}

  int64_t most_examples() const override { return most_examples_; }
  absl::Status Train(uint64_t, MicroBatchSource&, StepSums&) override {
    return absl::UnimplementedError("evaluates only");
  }
  absl::Status TrainVerified(uint64_t, MicroBatchSource&, StepCheck&, StepSums&) override {
    return absl::UnimplementedError("evaluates only");
  }
  absl::Status BeginEvaluation(uint64_t) override { return absl::OkStatus(); }
  absl::Status Evaluate(const Batch& batch, PassOutput, PassResult& result) override {
    batches_.push_back(batch.examples);
    result = {.examples = batch.examples, .loss_weight = batch.examples};
    return absl::OkStatus();
  }

  const std::vector<int64_t>& batches() const { return batches_; }

 private:
  const int64_t most_examples_;
  std::vector<int64_t> batches_;
};

TEST_F(EvaluatorTest, AllRanksRunAsManyPassesAsTheLargestShareNeeds) {
  v1::JobSpec spec = ClicksSpec(100);
  spec.mutable_evaluation()->set_metric("loss");
  PreparedJob job = PrepareJob(spec).value();
  const auto batches = [&](int64_t examples, int data_rank, int data_ranks) {
    spec.mutable_evaluation()->set_max_examples(examples);
    const auto evaluator = Evaluator::Create(spec, job.evaluated, data_rank, data_ranks,
                                             job.evaluation_data(), job.model->description())
                               .value();
    CountingEngine engine(/*most_examples=*/4);
    v1::ReportEvaluationRequest report;
    EXPECT_EQ(evaluator->Evaluate(0, engine, report), absl::OkStatus());
    return engine.batches();
  };
  EXPECT_THAT(batches(17, 0, 2), ElementsAre(4, 4, 0));
  EXPECT_THAT(batches(17, 1, 2), ElementsAre(4, 4, 1));
  EXPECT_THAT(batches(16, 0, 2), ElementsAre(4, 4));
  EXPECT_THAT(batches(2, 0, 3), ElementsAre(0));
  EXPECT_THAT(batches(2, 2, 3), ElementsAre(1));
}

TEST_F(EvaluatorTest, RefusesMetricsThatDoNotFit) {
  v1::JobSpec spec = ClicksSpec(100);
  spec.mutable_evaluation()->set_metric("f1");
  EXPECT_THAT(Evaluate(spec, 0, 1).status().message(), HasSubstr("evaluation.metric is \"f1\""));
  spec.mutable_evaluation()->set_metric("rmse");
  EXPECT_THAT(Evaluate(spec, 0, 1).status().message(),
              HasSubstr("but the model predicts classes; take a model with regression"));

  v1::JobSpec perceptron = ClicksSpec(100);
  perceptron.mutable_model()->mutable_mlp()->set_classes(3);
  v1::SyntheticClassificationData* data =
      perceptron.mutable_data()->mutable_synthetic_classification();
  data->set_examples(100);
  data->set_features(4);
  data->set_classes(3);
  perceptron.mutable_evaluation()->set_metric("auc");
  absl::Status status = Evaluate(perceptron, 0, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("of two classes"));
}

TEST_F(EvaluatorTest, TooManyScoresAreRefusedNamingTheBinnedForm) {
  v1::JobSpec spec = ClicksSpec(100);
  PreparedJob job = PrepareJob(spec).value();
  const Split huge{0, Evaluator::kMaxScoreBytes / 5 + 1};
  const auto status = [&] {
    return Evaluator::Create(spec, huge, 0, 1, *job.dataset, job.model->description()).status();
  };
  spec.mutable_evaluation()->set_metric("auc");
  EXPECT_EQ(status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status().message(), HasSubstr("binned_auc"));
  spec.mutable_evaluation()->set_metric("binned_auc");
  EXPECT_EQ(status(), absl::OkStatus());
  spec.mutable_evaluation()->set_metric("auc");
  spec.mutable_evaluation()->set_max_examples(1000);
  EXPECT_EQ(status(), absl::OkStatus());
}

// A perceptron of three classes on a table with text labels, untrained. As many examples of each
// class as `rows` says.
v1::JobSpec ColorsSpec(const TempFolder& folder, const std::vector<int>& rows) {
  const std::string names[] = {"blue", "green", "red"};
  std::string table = "x,z,color\n";
  for (size_t c = 0; c < rows.size(); ++c) {
    for (int i = 0; i < rows[c]; ++i) {
      table += absl::StrCat(i % 7 - 3, ",", (i * 5 + c) % 11, ",", names[c], "\n");
    }
  }
  v1::JobSpec spec = ClicksSpec(1);
  spec.mutable_model()->mutable_mlp()->set_classes(3);
  v1::CsvData& csv = *spec.mutable_data()->mutable_csv();
  csv.set_path(folder.Write("colors.csv", table));
  csv.set_label("color");
  csv.add_numeric("x");
  csv.add_numeric("z");
  return spec;
}

uint64_t DiagonalOf(const v1::Confusion& confusion) {
  uint64_t sum = 0;
  for (uint32_t c = 0; c < confusion.classes(); ++c) {
    sum += confusion.counts(c * confusion.classes() + c);
  }
  return sum;
}

uint64_t RowOf(const v1::Confusion& confusion, uint32_t row) {
  uint64_t sum = 0;
  for (uint32_t c = 0; c < confusion.classes(); ++c) {
    sum += confusion.counts(row * confusion.classes() + c);
  }
  return sum;
}

TEST_F(EvaluatorTest, ClassesAreCountedByTheLabelsOfTheTrainingData) {
  const TempFolder folder;
  v1::JobSpec spec = ColorsSpec(folder, {1500, 40, 700});
  const v1::ReportEvaluationRequest report = Evaluate(spec, 0, 1).value();
  const v1::Confusion& confusion = report.confusion();
  EXPECT_THAT(confusion.labels(), ElementsAre("blue", "green", "red"));
  EXPECT_EQ(RowOf(confusion, 0), 1500);
  EXPECT_EQ(RowOf(confusion, 1), 40);
  EXPECT_EQ(RowOf(confusion, 2), 700);
  EXPECT_EQ(DiagonalOf(confusion), report.correct());
  EXPECT_EQ(report.scores(), "") << "three classes have no AUC";

  std::vector<uint64_t> of_slots(9);
  for (int slot = 0; slot < 4; ++slot) {
    const v1::ReportEvaluationRequest share = Evaluate(spec, slot, 4).value();
    ASSERT_EQ(share.confusion().counts_size(), 9);
    EXPECT_EQ(DiagonalOf(share.confusion()), share.correct());
    for (int i = 0; i < 9; ++i) of_slots[i] += share.confusion().counts(i);
  }
  EXPECT_THAT(confusion.counts(), ElementsAreArray(of_slots));

  spec.mutable_model()->mutable_mlp()->set_classes(4);
  EXPECT_THAT(Evaluate(spec, 0, 1).value().confusion().labels(),
              ElementsAre("blue", "green", "red", "class 3"));
}

// Untrained logistic regression gives every class the same probability.
TEST_F(EvaluatorTest, EqualProbabilitiesAreTheFirstClass) {
  const TempFolder folder;
  for (const uint32_t classes : {2, 3}) {
    v1::JobSpec spec =
        ColorsSpec(folder, classes == 2 ? std::vector<int>{10, 20} : std::vector<int>{10, 20, 5});
    spec.mutable_model()->mutable_logistic_regression()->set_classes(classes);
    const v1::ReportEvaluationRequest report = Evaluate(spec, 0, 1).value();
    EXPECT_EQ(report.correct(), 10);
    EXPECT_EQ(DiagonalOf(report.confusion()), 10);
    EXPECT_EQ(report.confusion().counts(classes), 20);
  }
}

TEST_F(EvaluatorTest, TwoClassesReportScoresWhateverTheMetricIs) {
  v1::JobSpec spec = ClicksSpec(1500);
  spec.mutable_evaluation()->set_metric("auc");
  const v1::ReportEvaluationRequest auc = Evaluate(spec, 0, 1).value();
  EXPECT_EQ(DiagonalOf(auc.confusion()), auc.correct());
  EXPECT_THAT(auc.confusion().labels(), ElementsAre("0", "1"));
  for (const char* metric : {"accuracy", "loss"}) {
    spec.mutable_evaluation()->set_metric(metric);
    const v1::ReportEvaluationRequest report = Evaluate(spec, 0, 1).value();
    EXPECT_EQ(report.metric(), metric);
    EXPECT_EQ(report.scores(), auc.scores());
    EXPECT_EQ(report.labels(), auc.labels());
  }
  // A rank whose results another one reports has what those of others can be added to.
  PreparedJob job = PrepareJob(spec).value();
  const auto evaluator =
      Evaluator::Create(spec, job.evaluated, 0, 1, job.evaluation_data(), job.model->description())
          .value();
  v1::ReportEvaluationRequest left_out = auc;
  evaluator->LeaveOutResults(left_out);
  EXPECT_EQ(left_out.examples(), 0);
  EXPECT_EQ(left_out.scores(), "");
  EXPECT_THAT(left_out.confusion().counts(), ElementsAre(0, 0, 0, 0));

  // Training jobs report as asked.
  spec.mutable_stop()->clear_evaluate_only();
  spec.mutable_stop()->set_steps(1);
  spec.mutable_data()->set_holdout(0.5);
  const v1::ReportEvaluationRequest trained = Evaluate(spec, 0, 1).value();
  EXPECT_FALSE(trained.has_confusion());
  EXPECT_EQ(trained.scores(), "");
}

TEST_F(EvaluatorTest, ScoresThatAreTooManyBytesAreCountedByBins) {
  const v1::JobSpec spec = ClicksSpec(100);
  PreparedJob job = PrepareJob(spec).value();
  for (const int64_t more : {0, 1}) {
    const Split huge{0, Evaluator::kMaxScoreBytes / 5 + more};
    const auto evaluator =
        Evaluator::Create(spec, huge, 0, 1, *job.dataset, job.model->description()).value();
    v1::ReportEvaluationRequest report;
    evaluator->LeaveOutResults(report);
    EXPECT_EQ(report.positive_bins_size() > 0, more > 0);
  }
}

TEST_F(EvaluatorTest, ManyClassesAreNotCounted) {
  v1::JobSpec spec = ClicksSpec(1);
  spec.mutable_model()->mutable_mlp();
  v1::SyntheticClassificationData& data = *spec.mutable_data()->mutable_synthetic_classification();
  data.set_examples(300);
  data.set_features(4);
  for (const int classes : {kMostConfusionClasses, kMostConfusionClasses + 1}) {
    spec.mutable_model()->mutable_mlp()->set_classes(classes);
    data.set_classes(classes);
    const v1::ReportEvaluationRequest report = Evaluate(spec, 0, 1).value();
    EXPECT_EQ(report.examples(), 300);
    EXPECT_EQ(report.confusion().classes(), classes);
    const bool counted = classes == kMostConfusionClasses;
    EXPECT_EQ(report.confusion().labels_size(), counted ? classes : 0);
    EXPECT_EQ(report.confusion().counts_size(), counted ? classes * classes : 0);
    if (counted) EXPECT_EQ(DiagonalOf(report.confusion()), report.correct());
  }
}

}  // namespace
}  // namespace muster
