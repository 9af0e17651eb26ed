#include "server/coordinator/lifecycle/early_stop.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_record.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

v1::EvaluationResult Result(uint64_t clock, const std::string& metric, double value) {
  v1::EvaluationResult result;
  result.set_clock(clock);
  result.set_metric(metric);
  result.set_value(value);
  return result;
}

// Why it stops after each of these values of a metric, joined.
std::string Reasons(v1::JobRecord record, const std::string& metric,
                    const std::vector<double>& values) {
  std::string reasons;
  uint64_t clock = 0;
  for (const double value : values) {
    *record.add_evaluations() = Result(++clock, metric, value);
    reasons += StopsAfter(record).empty() ? "-" : "S";
  }
  return reasons;
}

TEST(EarlyStopTest, PatienceCountsEvaluationsInARowThatAreNoBetterThanTheBest) {
  v1::JobRecord record;
  record.mutable_spec()->mutable_stop()->set_patience(2);
  EXPECT_EQ(Reasons(record, "loss", {3, 2, 2.5, 1.9, 2, 1.9, 1}), "-----S-") << "1.9 is no better";
  EXPECT_EQ(Reasons(record, "accuracy", {0.5, 0.6, 0.4, 0.5}), "---S");
  EXPECT_EQ(Reasons(record, "accuracy", {0.1, 0.2, 0.3, 0.4}), "----");
  EXPECT_EQ(Reasons(record, "rmse", {3, 2, 2.5, 1.9, 2, 1.9, 1}), "-----S-");
  EXPECT_EQ(Reasons(record, "mae", {4, 3, 2, 1}), "----");
  EXPECT_EQ(Reasons(record, "r2", {-0.5, 0.6, 0.4, 0.5}), "---S");
  record.mutable_spec()->mutable_stop()->clear_patience();
  EXPECT_EQ(Reasons(record, "loss", {1, 2, 3, 4}), "----");
}

TEST(EarlyStopTest, PatienceNamesTheBestEvaluationAndPassesOverThoseWithoutAValue) {
  v1::JobRecord record;
  record.mutable_spec()->mutable_stop()->set_patience(1);
  *record.add_evaluations() = Result(10, "auc", 0.75);
  v1::EvaluationResult none = Result(20, "auc", 0);
  none.set_no_value("one class");
  *record.add_evaluations() = none;
  EXPECT_EQ(StopsAfter(record), "");
  *record.add_evaluations() = Result(30, "auc", 0.5);
  EXPECT_THAT(StopsAfter(record), HasSubstr("no better than at step 10 (auc 0.75)"));
}

TEST(EarlyStopTest, HoursAreThoseOfTraining) {
  v1::JobRecord record;
  record.mutable_spec()->mutable_stop()->set_hours(0.5);
  v1::EvaluationResult result = Result(1, "loss", 1);
  result.set_training_seconds(1799);
  *record.add_evaluations() = result;
  EXPECT_EQ(StopsAfter(record), "");
  result.set_training_seconds(1800);
  *record.add_evaluations() = result;
  EXPECT_THAT(StopsAfter(record), HasSubstr("stop.hours of training, 0.5"));
}

TEST(EarlyStopTest, ATargetIsReachedFromTheBetterSide) {
  v1::JobRecord record;
  record.mutable_spec()->mutable_stop()->set_target(0.5);
  EXPECT_EQ(Reasons(record, "loss", {0.6, 0.5, 0.4}), "-SS");
  EXPECT_EQ(Reasons(record, "accuracy", {0.4, 0.5, 0.6}), "-SS");
  EXPECT_EQ(Reasons(record, "rmse", {0.6, 0.5, 0.4}), "-SS");
  EXPECT_EQ(Reasons(record, "r2", {0.4, 0.5, 0.6}), "-SS");
}

}  // namespace
}  // namespace muster
