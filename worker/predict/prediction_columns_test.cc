#include "worker/predict/prediction_columns.h"

#include <cstdlib>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// The names, and the predictions of the last example.
std::string TextOf(const PredictionColumns& columns, const MicroBatch& results) {
  std::string text = "x";
  columns.AppendNames(text);
  text += "\nx";
  columns.AppendPredictions(results, results.examples - 1, text);
  return text;
}

TEST(PredictionColumnsTest, ClassesHaveTheirNamesAndProbabilities) {
  MicroBatch results;
  results.examples = 2;
  results.predicted = {0, 2};
  results.probabilities = {1, 0, 0, 0.25f, 1e-9f, 0.1f};
  EXPECT_EQ(TextOf(PredictionColumns(3, {"no", "perhaps", "yes"}, ','), results),
            "x,predicted,probability_no,probability_perhaps,probability_yes\n"
            "x,yes,0.25,1e-09,0.1");
  EXPECT_EQ(TextOf(PredictionColumns(3, {}, ';'), results),
            "x;predicted;probability_0;probability_1;probability_2\nx;2;0.25;1e-09;0.1");
  EXPECT_EQ(TextOf(PredictionColumns(3, {"1", "2"}, ','), results),
            "x,predicted,probability_1,probability_2,probability_#2\nx,#2,0.25,1e-09,0.1")
      << "an output without a class";
}

TEST(PredictionColumnsTest, NamesAreQuotedWhereTheyNeedBe) {
  MicroBatch results;
  results.examples = 1;
  results.predicted = {1};
  results.probabilities = {0, 1};
  EXPECT_EQ(TextOf(PredictionColumns(2, {"a;b", "say \"c\"\n"}, ';'), results),
            "x;predicted;\"probability_a;b\";\"probability_say \"\"c\"\"\n\"\n"
            "x;\"say \"\"c\"\"\n\";0;1");
}

TEST(PredictionColumnsTest, OfManyClassesOnlyThePredictedOneHasAProbability) {
  MicroBatch results;
  results.examples = 1;
  results.predicted = {100};
  results.probabilities.resize(101);
  results.probabilities[100] = 0.5f;
  EXPECT_EQ(TextOf(PredictionColumns(101, {}, ','), results), "x,predicted,probability\nx,100,0.5");
  EXPECT_EQ(PredictionColumns(100, {}, ',').names().size(), 101);
}

TEST(PredictionColumnsTest, NumbersAreInTheTargetsOwnUnit) {
  MicroBatch results;
  results.examples = 2;
  results.scores = {0, -1.5f};
  const PredictionColumns columns(TargetScale{.mean = 20, .deviation = 10}, ',');
  EXPECT_THAT(columns.names(), ElementsAre("predicted"));
  EXPECT_EQ(TextOf(columns, results), "x,predicted\nx,5");
}

TEST(PredictionColumnsTest, NumbersAreReadAsTheSameBits) {
  const PredictionColumns columns(2, {}, ',');
  for (int i = 1; i < 1000; ++i) {
    MicroBatch results;
    results.examples = 1;
    results.predicted = {1};
    results.probabilities = {1 - 1.0f / i, 1.0f / i};
    std::string text;
    columns.AppendPredictions(results, 0, text);
    const size_t last = text.rfind(',');
    EXPECT_EQ(std::strtof(text.c_str() + last + 1, nullptr), 1.0f / i) << text;
    EXPECT_EQ(std::strtof(text.c_str() + 3, nullptr), 1 - 1.0f / i) << text;
  }
}

}  // namespace
}  // namespace muster
