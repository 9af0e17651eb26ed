#include "common/eval/metric.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const EvaluationSums kSums = {
    .loss_sum = 6, .correct = 3, .examples = 2, .labels = 4, .text_bytes = 8};

TEST(MetricFromSumsTest, Values) {
  EXPECT_DOUBLE_EQ(*MetricFromSums("loss", kSums), 1.5);
  EXPECT_DOUBLE_EQ(*MetricFromSums("accuracy", kSums), 0.75);
  EXPECT_DOUBLE_EQ(*MetricFromSums("perplexity", kSums), std::exp(1.5));
  EXPECT_DOUBLE_EQ(*MetricFromSums("bits_per_byte", kSums), 0.75 / std::log(2.0));
  // A uniform guess over 256 bytes costs eight bits.
  const EvaluationSums guess = {
      .loss_sum = 10 * std::log(256.0), .examples = 10, .labels = 10, .text_bytes = 10};
  EXPECT_DOUBLE_EQ(*MetricFromSums("bits_per_byte", guess), 8);
}

TEST(MetricFromSumsTest, RefusesOtherMetricsByName) {
  EXPECT_THAT(MetricFromSums("auc", kSums).status().message(),
              AllOf(HasSubstr("\"auc\""), HasSubstr("accuracy")));
}

TEST(MetricFromSumsTest, RefusesNoExamples) {
  EXPECT_THAT(MetricFromSums("loss", {}).status().message(), HasSubstr("0 examples"));
  EXPECT_THAT(MetricFromSums("bits_per_byte", {.examples = 1, .labels = 1}).status().code(),
              absl::StatusCode::kFailedPrecondition);
}

// Targets 1, 2 and 6 around a training mean of 2; predictions 2, 2 and 4.
const EvaluationSums kRegression = {
    .examples = 3,
    .labels = 3,
    .regression = {
        .squared_errors = 5, .absolute_errors = 3, .deviations = 3, .squared_deviations = 17}};

TEST(MetricFromSumsTest, ValuesOfRegression) {
  EXPECT_DOUBLE_EQ(*MetricFromSums("rmse", kRegression), std::sqrt(5.0 / 3));
  EXPECT_DOUBLE_EQ(*MetricFromSums("mae", kRegression), 1);
  // The targets' own mean is 3, from which they deviate by -2, -1 and 3.
  EXPECT_DOUBLE_EQ(*MetricFromSums("r2", kRegression), 1 - 5.0 / 14);
}

TEST(MetricFromSumsTest, EqualTargetsHaveNoR2) {
  EvaluationSums sums = kRegression;
  sums.regression.squared_deviations = 3;
  const absl::Status status = MetricFromSums("r2", sums).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("all targets are equal"));
  EXPECT_TRUE(MetricFromSums("rmse", sums).ok());
}

TEST(HigherIsBetterTest, ByMetric) {
  EXPECT_TRUE(HigherIsBetter("accuracy"));
  EXPECT_TRUE(HigherIsBetter("auc"));
  EXPECT_TRUE(HigherIsBetter("binned_auc"));
  EXPECT_FALSE(HigherIsBetter("loss"));
  EXPECT_FALSE(HigherIsBetter("perplexity"));
  EXPECT_FALSE(HigherIsBetter("bits_per_byte"));
  EXPECT_TRUE(HigherIsBetter("r2"));
  EXPECT_FALSE(HigherIsBetter("rmse"));
  EXPECT_FALSE(HigherIsBetter("mae"));
}

}  // namespace
}  // namespace muster
