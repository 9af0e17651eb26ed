#include "server/coordinator/job/evaluation_gatherer.h"

#include <cmath>
#include <string>
#include <vector>

#include "common/eval/confusion.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::ReportEvaluationRequest Share(uint32_t slot, const std::string& metric, double loss_sum,
                                  uint64_t correct, uint64_t examples, uint64_t clock = 5) {
  v1::ReportEvaluationRequest share;
  share.mutable_task()->set_slot(slot);
  share.set_clock(clock);
  share.set_metric(metric);
  share.set_loss_sum(loss_sum);
  share.set_correct(correct);
  share.set_examples(examples);
  return share;
}

v1::ReportEvaluationRequest Scores(uint32_t slot, std::vector<float> scores,
                                   std::vector<uint8_t> labels) {
  v1::ReportEvaluationRequest share = Share(slot, "auc", 1, 1, scores.size());
  share.set_scores(scores.data(), scores.size() * sizeof(float));
  share.set_labels(labels.data(), labels.size());
  return share;
}

void SetErrors(const double (&sums)[4], v1::ReportEvaluationRequest& share) {
  v1::ErrorSums& errors = *share.mutable_errors();
  errors.set_squared_errors(sums[0]);
  errors.set_absolute_errors(sums[1]);
  errors.set_deviations(sums[2]);
  errors.set_squared_deviations(sums[3]);
}

// A share with the confusion matrix of classes a, b and so on.
v1::ReportEvaluationRequest Matrix(uint32_t slot, uint32_t classes, std::vector<uint64_t> counts,
                                   const std::string& metric = "accuracy") {
  v1::ReportEvaluationRequest share = Share(slot, metric, 1, 0, 0);
  v1::Confusion& confusion = *share.mutable_confusion();
  confusion.set_classes(classes);
  for (uint32_t c = 0; c < classes; ++c) confusion.add_labels(std::string(1, 'a' + c));
  for (size_t i = 0; i < counts.size(); ++i) {
    confusion.add_counts(counts[i]);
    share.set_examples(share.examples() + counts[i]);
    if (i % (classes + 1) == 0) share.set_correct(share.correct() + counts[i]);
  }
  return share;
}

TEST(EvaluationGathererTest, SumsOverAllSlots) {
  EvaluationGatherer gatherer;
  ASSERT_TRUE(gatherer.Add(Share(1, "accuracy", 3, 1, 10)).ok());
  EXPECT_FALSE(gatherer.complete(2));
  ASSERT_TRUE(gatherer.Add(Share(1, "accuracy", 3, 2, 10)).ok()) << "a repeat replaces";
  ASSERT_TRUE(gatherer.Add(Share(0, "accuracy", 1, 18, 30)).ok());
  ASSERT_TRUE(gatherer.complete(2));
  const v1::EvaluationResult result = *gatherer.Result();
  EXPECT_DOUBLE_EQ(result.value(), 0.5);
  EXPECT_DOUBLE_EQ(result.loss(), 0.1);
  EXPECT_EQ(result.examples(), 40);
  EXPECT_EQ(result.clock(), 5);
}

TEST(EvaluationGathererTest, BitsPerByte) {
  EvaluationGatherer gatherer;
  ASSERT_TRUE(gatherer.Add(Share(0, "bits_per_byte", 20 * std::log(2.0), 0, 10)).ok());
  EXPECT_NEAR(gatherer.Result()->value(), 2.0, 1e-12);
}

TEST(EvaluationGathererTest, AnotherClockStartsOver) {
  EvaluationGatherer gatherer;
  ASSERT_TRUE(gatherer.Add(Share(0, "loss", 1, 0, 1, 5)).ok());
  ASSERT_TRUE(gatherer.Add(Share(1, "loss", 1, 0, 1, 6)).ok());
  EXPECT_FALSE(gatherer.complete(2));
  ASSERT_TRUE(gatherer.Add(Share(0, "loss", 1, 0, 1, 6)).ok());
  EXPECT_TRUE(gatherer.complete(2));
}

TEST(EvaluationGathererTest, ExactAucOverSlots) {
  EvaluationGatherer gatherer;
  ASSERT_TRUE(gatherer.Add(Scores(0, {0.9f, 0.2f}, {1, 0})).ok());
  ASSERT_TRUE(gatherer.Add(Scores(1, {0.4f, 0.5f}, {1, 0})).ok());
  // Of the four pairs of a positive and a negative, one is in the wrong order.
  EXPECT_DOUBLE_EQ(gatherer.Result()->value(), 0.75);
}

TEST(EvaluationGathererTest, BinnedAucAddsBins) {
  EvaluationGatherer gatherer;
  v1::ReportEvaluationRequest a = Share(0, "binned_auc", 1, 1, 2);
  for (uint64_t n : {0, 0, 1}) a.add_positive_bins(n);
  for (uint64_t n : {1, 0, 0}) a.add_negative_bins(n);
  v1::ReportEvaluationRequest b = a;
  b.mutable_task()->set_slot(1);
  ASSERT_TRUE(gatherer.Add(a).ok());
  ASSERT_TRUE(gatherer.Add(b).ok());
  EXPECT_DOUBLE_EQ(gatherer.Result()->value(), 1.0);
  b.add_positive_bins(3);
  ASSERT_TRUE(gatherer.Add(b).ok());
  EXPECT_THAT(std::string(gatherer.Result().status().message()), HasSubstr("bins"));
}

TEST(EvaluationGathererTest, ErrorsOfAllSlotsAreOneEvaluation) {
  // Slot 2 reports for no examples: its results are another rank's.
  const double parts[][4] = {{2, 1, 1, 3}, {3, 2, 2, 14}};
  for (const auto& [metric, value] : std::vector<std::pair<std::string, double>>{
           {"rmse", std::sqrt(5.0 / 3)}, {"mae", 1}, {"r2", 1 - 5.0 / 14}}) {
    EvaluationGatherer gatherer;
    for (uint32_t slot = 0; slot < 3; ++slot) {
      v1::ReportEvaluationRequest share = Share(slot, metric, slot < 2 ? 1.5 : 0, 0, slot);
      if (slot > 0) SetErrors(parts[slot - 1], share);
      ASSERT_TRUE(gatherer.Add(share).ok());
    }
    const absl::StatusOr<v1::EvaluationResult> result = gatherer.Result();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_DOUBLE_EQ(result->value(), value) << metric;
    EXPECT_DOUBLE_EQ(result->loss(), 1);
    EXPECT_EQ(result->examples(), 3);
  }
}

TEST(EvaluationGathererTest, RefusesErrorsThatCannotBe) {
  EvaluationGatherer gatherer;
  v1::ReportEvaluationRequest share = Share(1, "rmse", 1, 0, 1);
  EXPECT_THAT(std::string(gatherer.Add(share).message()), HasSubstr("no sums of errors of its 1"));
  SetErrors({-1, 0, 0, 0}, share);
  const absl::Status status = gatherer.Add(share);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("slot 1: squared_errors is -1"));
  SetErrors({0, 0, 0, std::nan("")}, share);
  EXPECT_THAT(std::string(gatherer.Add(share).message()), HasSubstr("squared_deviations is nan"));
  SetErrors({0, 0, -5, 0}, share);
  EXPECT_EQ(gatherer.Add(share), absl::OkStatus());
}

TEST(EvaluationGathererTest, ConfusionMatricesOfAllSlotsAddUp) {
  EvaluationGatherer gatherer;
  ASSERT_EQ(gatherer.Add(Matrix(0, 3, {5, 1, 0, 0, 4, 2, 1, 0, 3})), absl::OkStatus());
  // Another stage has this slot's results.
  ASSERT_EQ(gatherer.Add(Matrix(1, 3, std::vector<uint64_t>(9))), absl::OkStatus());
  ASSERT_EQ(gatherer.Add(Matrix(2, 3, {1, 1, 1, 2, 2, 2, 0, 0, 0})), absl::OkStatus());
  const v1::EvaluationResult result = *gatherer.Result();
  EXPECT_EQ(result.confusion().classes(), 3);
  EXPECT_THAT(result.confusion().labels(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(result.confusion().counts(), ElementsAre(6, 2, 1, 2, 6, 4, 1, 0, 3));
  EXPECT_DOUBLE_EQ(result.value(), 15.0 / 25);
  EXPECT_FALSE(result.has_auc());
}

TEST(EvaluationGathererTest, TwoClassesHaveAnAreaWhateverTheMetricIs) {
  // Of the four pairs of a positive and a negative, one is in the wrong order.
  const float scores[][2] = {{0.9f, 0.2f}, {0.4f, 0.5f}};
  for (const std::string metric : {"accuracy", "loss", "auc"}) {
    EvaluationGatherer gatherer;
    for (uint32_t slot = 0; slot < 2; ++slot) {
      v1::ReportEvaluationRequest share = Matrix(slot, 2, {1, 0, 0, 1}, metric);
      share.set_scores(scores[slot], sizeof(scores[slot]));
      share.set_labels(std::string{1, 0});
      ASSERT_EQ(gatherer.Add(share), absl::OkStatus());
    }
    const v1::EvaluationResult result = *gatherer.Result();
    EXPECT_DOUBLE_EQ(result.auc(), 0.75) << metric;
    EXPECT_DOUBLE_EQ(result.value(), metric == "auc" ? 0.75 : metric == "loss" ? 0.5 : 1);
  }
  EvaluationGatherer binned;
  v1::ReportEvaluationRequest bins = Matrix(0, 2, {2, 0, 0, 2});
  for (uint64_t n : {0, 2}) bins.add_positive_bins(n);
  for (uint64_t n : {1, 1}) bins.add_negative_bins(n);
  ASSERT_EQ(binned.Add(bins), absl::OkStatus());
  EXPECT_DOUBLE_EQ(binned.Result()->auc(), 0.75);
}

TEST(EvaluationGathererTest, ExamplesOfOneClassHaveAMatrixAndNoArea) {
  EvaluationGatherer gatherer;
  v1::ReportEvaluationRequest share = Matrix(0, 2, {2, 1, 0, 0});
  const float scores[] = {0.1f, 0.2f, 0.6f};
  share.set_scores(scores, sizeof(scores));
  share.set_labels(std::string(3, '\0'));
  ASSERT_EQ(gatherer.Add(share), absl::OkStatus());
  const absl::StatusOr<v1::EvaluationResult> result = gatherer.Result();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->has_auc());
  EXPECT_EQ(result->no_value(), "");
  EXPECT_THAT(result->confusion().counts(), ElementsAre(2, 1, 0, 0));
}

TEST(EvaluationGathererTest, ManyClassesHaveNoMatrix) {
  EvaluationGatherer gatherer;
  v1::ReportEvaluationRequest share = Share(0, "accuracy", 1, 1, 2);
  share.mutable_confusion()->set_classes(kMostConfusionClasses + 1);
  ASSERT_EQ(gatherer.Add(share), absl::OkStatus());
  EXPECT_EQ(gatherer.Result()->confusion().classes(), kMostConfusionClasses + 1);
  EXPECT_EQ(gatherer.Result()->confusion().counts_size(), 0);
  share.mutable_confusion()->add_counts(2);
  EXPECT_THAT(std::string(gatherer.Add(share).message()), HasSubstr("1 counts instead of 0"));
}

TEST(EvaluationGathererTest, RefusesMalformedMatrices) {
  const auto refused = [](auto change) {
    EvaluationGatherer gatherer;
    v1::ReportEvaluationRequest share = Matrix(1, 2, {3, 1, 0, 2});
    change(share);
    const absl::Status status = gatherer.Add(share);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  using Share = v1::ReportEvaluationRequest;
  EXPECT_THAT(refused([](Share& s) { s.mutable_confusion()->add_counts(0); }),
              HasSubstr("clock 5: slot 1: its confusion matrix has 5 counts instead of 4"));
  EXPECT_THAT(refused([](Share& s) { s.mutable_confusion()->clear_labels(); }),
              HasSubstr("0 labels instead of 2"));
  EXPECT_THAT(refused([](Share& s) { s.mutable_confusion()->set_classes(1); }),
              HasSubstr("is of 1 classes"));
  EXPECT_THAT(
      refused([](Share& s) { s.mutable_confusion()->set_labels(0, std::string(257, 'a')); }),
      HasSubstr("has 257 bytes"));
  EXPECT_THAT(refused([](Share& s) { s.mutable_confusion()->set_counts(1, 0); }),
              HasSubstr("counts 5 examples, 5 of them as correct; the slot reports 6 and 5"));
  EXPECT_THAT(refused([](Share& s) { s.set_correct(4); }), HasSubstr("reports 6 and 4"));
  // Sums that wrap around are not those of the examples.
  EXPECT_THAT(refused([](Share& s) {
                s.mutable_confusion()->set_counts(1, ~uint64_t{0});
                s.mutable_confusion()->set_counts(2, 2);
              }),
              HasSubstr("counts more than the 6 examples"));
}

TEST(EvaluationGathererTest, RefusesMatricesOfOtherClasses) {
  EvaluationGatherer gatherer;
  ASSERT_EQ(gatherer.Add(Matrix(0, 3, std::vector<uint64_t>(9, 1))), absl::OkStatus());
  const auto refused = [&](const v1::ReportEvaluationRequest& share) {
    return std::string(gatherer.Add(share).message());
  };
  EXPECT_THAT(refused(Matrix(1, 2, {1, 1, 1, 1})),
              HasSubstr("slot 0 has a confusion matrix of 3 classes, slot 1 has a confusion matrix "
                        "of 2 classes"));
  EXPECT_THAT(refused(Share(1, "accuracy", 1, 0, 1)), HasSubstr("slot 1 has no confusion matrix"));
  v1::ReportEvaluationRequest renamed = Matrix(1, 3, std::vector<uint64_t>(9, 1));
  renamed.mutable_confusion()->set_labels(2, "d");
  EXPECT_THAT(refused(renamed), HasSubstr("with other labels"));
}

TEST(EvaluationGathererTest, RefusesWhatIsTooMuchAndNamesTheBinnedForm) {
  EvaluationGatherer gatherer;
  v1::ReportEvaluationRequest half = Share(0, "auc", 1, 1, 1);
  half.set_scores(std::string(kMaxScoreBytes / 2 + 4, '\0'));
  ASSERT_TRUE(gatherer.Add(half).ok());
  half.mutable_task()->set_slot(1);
  const absl::Status status = gatherer.Add(half);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("binned_auc"));
}

TEST(EvaluationGathererTest, RefusesMalformedShares) {
  EvaluationGatherer gatherer;
  v1::ReportEvaluationRequest odd = Share(0, "auc", 1, 1, 1);
  odd.set_scores("abc");
  EXPECT_FALSE(gatherer.Add(odd).ok());
  ASSERT_TRUE(gatherer.Add(Share(0, "loss", 1, 0, 1)).ok());
  EXPECT_THAT(std::string(gatherer.Add(Share(1, "accuracy", 1, 0, 1)).message()),
              HasSubstr("slot 0 reports loss, slot 1 accuracy"));
}

TEST(EvaluationGathererTest, LabelsMustMatchScores) {
  EvaluationGatherer gatherer;
  ASSERT_TRUE(gatherer.Add(Scores(0, {0.9f, 0.2f}, {1})).ok());
  EXPECT_THAT(std::string(gatherer.Result().status().message()),
              HasSubstr("slot 0 sent 2 scores and 1 bytes of labels for 2 "));
}

TEST(EvaluationGathererTest, NoExamplesGiveNoValue) {
  EvaluationGatherer gatherer;
  ASSERT_TRUE(gatherer.Add(Share(0, "accuracy", 0, 0, 0)).ok());
  const absl::StatusOr<v1::EvaluationResult> result = gatherer.Result();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->has_value());
  EXPECT_THAT(result->no_value(), HasSubstr("0 examples"));
}

TEST(EvaluationGathererTest, AucOfOneClassHasNoValueAndALoss) {
  EvaluationGatherer exact;
  ASSERT_TRUE(exact.Add(Scores(0, {0.9f, 0.2f}, {1, 1})).ok());
  EvaluationGatherer binned;
  v1::ReportEvaluationRequest bins = Share(0, "binned_auc", 1, 1, 2);
  for (uint64_t n : {0, 2}) bins.add_positive_bins(n);
  for (uint64_t n : {0, 0}) bins.add_negative_bins(n);
  ASSERT_TRUE(binned.Add(bins).ok());
  for (const EvaluationGatherer* gatherer : {&exact, &binned}) {
    const absl::StatusOr<v1::EvaluationResult> result = gatherer->Result();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->has_value());
    EXPECT_THAT(result->no_value(), HasSubstr("2 positive and 0 negative"));
    EXPECT_DOUBLE_EQ(result->loss(), 0.5);
    EXPECT_EQ(result->examples(), 2);
  }
}

}  // namespace
}  // namespace muster
