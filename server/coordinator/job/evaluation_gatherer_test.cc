#include "server/coordinator/job/evaluation_gatherer.h"

#include <cmath>
#include <string>
#include <vector>

#include "common/eval/regression_sums.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

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
  const RegressionSums parts[] = {{2, 1, 1, 3}, {3, 2, 2, 14}};
  for (const auto& [metric, value] : std::vector<std::pair<std::string, double>>{
           {"rmse", std::sqrt(5.0 / 3)}, {"mae", 1}, {"r2", 1 - 5.0 / 14}}) {
    EvaluationGatherer gatherer;
    for (uint32_t slot = 0; slot < 3; ++slot) {
      v1::ReportEvaluationRequest share = Share(slot, metric, slot < 2 ? 1.5 : 0, 0, slot);
      if (slot > 0) share.set_scores(PackSums(parts[slot - 1]));
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
  share.set_scores(PackSums({-1, 0, 0, 0}));
  ASSERT_TRUE(gatherer.Add(share).ok());
  const absl::Status status = gatherer.Result().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("slot 1: number 1 of the sums of errors"));
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
  EXPECT_THAT(std::string(gatherer.Result().status().message()), HasSubstr("1 bytes of labels"));
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
