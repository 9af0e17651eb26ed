#include "common/eval/metric.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const EvaluationSums kSums = {.loss_sum = 6, .correct = 3, .examples = 4};

TEST(MetricFromSumsTest, Values) {
  EXPECT_DOUBLE_EQ(*MetricFromSums("loss", kSums), 1.5);
  EXPECT_DOUBLE_EQ(*MetricFromSums("accuracy", kSums), 0.75);
  // A uniform guess over 256 bytes costs eight bits.
  EXPECT_DOUBLE_EQ(
      *MetricFromSums("bits_per_byte", {.loss_sum = 10 * std::log(256.0), .examples = 10}), 8);
}

TEST(MetricFromSumsTest, RefusesOtherMetricsByName) {
  EXPECT_THAT(MetricFromSums("auc", kSums).status().message(),
              AllOf(HasSubstr("\"auc\""), HasSubstr("accuracy")));
}

TEST(MetricFromSumsTest, RefusesNoExamples) {
  EXPECT_THAT(MetricFromSums("loss", {}).status().message(), HasSubstr("0 examples"));
}

TEST(HigherIsBetterTest, ByMetric) {
  EXPECT_TRUE(HigherIsBetter("accuracy"));
  EXPECT_TRUE(HigherIsBetter("auc"));
  EXPECT_TRUE(HigherIsBetter("binned_auc"));
  EXPECT_FALSE(HigherIsBetter("loss"));
  EXPECT_FALSE(HigherIsBetter("bits_per_byte"));
}

}  // namespace
}  // namespace muster
