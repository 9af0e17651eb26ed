#include "worker/nn/layers/heads.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nn/gradient_check.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

void CheckSoftmax(int64_t classes, const std::vector<int32_t>& labels) {
  const SoftmaxHead head(classes);
  std::vector<float> logits = RandomValues(labels.size() * classes, 1);
  std::vector<float> scores(classes == 2 ? labels.size() : 0);
  std::vector<float> gradient = logits;
  head.Forward({}, labels, absl::MakeSpan(gradient), {.scores = absl::MakeSpan(scores)});
  const auto value = [&] {
    std::vector<float> scratch = logits;
    return head.Forward({}, labels, absl::MakeSpan(scratch), {.scores = absl::MakeSpan(scores)})
        .loss_sum;
  };
  ExpectGradient({.what = "logits"}, value, absl::MakeSpan(logits), gradient);
}

TEST(SoftmaxHeadTest, Gradients) {
  CheckSoftmax(5, {0, 4, 2, 2});
  CheckSoftmax(2, {0, 1, 1});
  CheckSoftmax(256, {17, 255});
}

TEST(SoftmaxHeadTest, LossAndCorrect) {
  std::vector<float> logits = {0, 0, 0, 0, 1, 2, 3, 4};
  const HeadResult result = SoftmaxHead(4).Forward({}, {0, 3}, absl::MakeSpan(logits), {});
  const double second = std::log(std::exp(-3) + std::exp(-2) + std::exp(-1) + 1);
  EXPECT_NEAR(result.loss_sum, std::log(4) + second, 1e-6);
  EXPECT_EQ(result.correct, 2);
}

TEST(SoftmaxHeadTest, TwoClassesHaveTheScoresOfTheLogisticHead) {
  const std::vector<int32_t> labels = {1, 0, 1};
  std::vector<float> pairs = {0.5, 2, 1, -30, -4, -4};
  std::vector<float> single = {1.5, -31, 0};
  std::vector<float> scores(3);
  std::vector<float> expected(3);
  const HeadResult two =
      SoftmaxHead(2).Forward({}, labels, absl::MakeSpan(pairs), {.scores = absl::MakeSpan(scores)});
  const HeadResult one = LogisticHead().Forward({}, labels, absl::MakeSpan(single),
                                                {.scores = absl::MakeSpan(expected)});
  EXPECT_THAT(scores, Pointwise(FloatNear(1e-7), expected));
  EXPECT_GT(scores[1], 0) << "small probabilities keep their order";
  EXPECT_NEAR(two.loss_sum, one.loss_sum, 1e-6);
  EXPECT_EQ(two.correct, one.correct);
}

TEST(LogisticHeadTest, Gradients) {
  const std::vector<int32_t> labels = {0, 1, 1, 0, 1};
  std::vector<float> logits = RandomValues(labels.size(), 2);
  std::vector<float> scores(labels.size());
  std::vector<float> gradient = logits;
  LogisticHead().Forward({}, labels, absl::MakeSpan(gradient), {.scores = absl::MakeSpan(scores)});
  const auto value = [&] {
    std::vector<float> scratch = logits;
    return LogisticHead()
        .Forward({}, labels, absl::MakeSpan(scratch), {.scores = absl::MakeSpan(scores)})
        .loss_sum;
  };
  ExpectGradient({.what = "logits"}, value, absl::MakeSpan(logits), gradient);
}

TEST(LogisticHeadTest, LossScoresAndCorrect) {
  std::vector<float> logits = {0, std::log(3.0f), -100};
  std::vector<float> scores(3);
  const HeadResult result = LogisticHead().Forward({}, {0, 1, 1}, absl::MakeSpan(logits),
                                                   {.scores = absl::MakeSpan(scores)});
  EXPECT_NEAR(result.loss_sum, std::log(2) + std::log(4.0 / 3) + 100, 1e-4);
  EXPECT_EQ(result.correct, 2);
  EXPECT_THAT(scores, ElementsAre(0.5, FloatNear(0.75, 1e-6), FloatNear(0, 1e-30)));
}

// Holds what a head predicts of all examples.
struct Predictions {
  Predictions(size_t examples, int64_t classes)
      : scores(classes == 2 ? examples : 0),
        probabilities(examples * classes),
        predicted(examples) {}

  ClassPredictions spans() {
    return {.scores = absl::MakeSpan(scores),
            .probabilities = absl::MakeSpan(probabilities),
            .predicted = absl::MakeSpan(predicted)};
  }

  std::vector<float> scores;
  std::vector<float> probabilities;
  std::vector<int32_t> predicted;
};

TEST(SoftmaxHeadTest, Probabilities) {
  std::vector<float> logits = {0, 0, 0, 0, 100, 100 + std::log(3.0f)};
  Predictions predictions(2, 3);
  const HeadResult result =
      SoftmaxHead(3).Forward({}, {0, 1}, absl::MakeSpan(logits), predictions.spans());
  EXPECT_THAT(predictions.probabilities,
              Pointwise(FloatNear(1e-6), {1.0f / 3, 1.0f / 3, 1.0f / 3, 0.0f, 0.25f, 0.75f}));
  EXPECT_THAT(predictions.predicted, ElementsAre(0, 2)) << "the first among equals";
  EXPECT_EQ(result.correct, 1);
}

TEST(SoftmaxHeadTest, ProbabilitiesChangeNeitherLossNorGradient) {
  for (const int64_t classes : {2, 5, 100}) {
    const std::vector<int32_t> labels = {0, 1, 1};
    std::vector<float> logits = RandomValues(labels.size() * classes, 3);
    std::vector<float> gradient = logits;
    Predictions predictions(labels.size(), classes);
    const SoftmaxHead head(classes);
    const HeadResult plain = head.Forward({}, labels, absl::MakeSpan(logits), {});
    const HeadResult result =
        head.Forward({}, labels, absl::MakeSpan(gradient), predictions.spans());
    EXPECT_EQ(gradient, logits);
    EXPECT_EQ(result.loss_sum, plain.loss_sum);
    EXPECT_EQ(result.correct, plain.correct);
    for (size_t i = 0; i < labels.size(); ++i) {
      for (int64_t c = 0; c < classes; ++c) {
        EXPECT_NEAR(predictions.probabilities[i * classes + c] - (c == labels[i]),
                    gradient[i * classes + c], 1e-6);
      }
    }
  }
}

TEST(LogisticHeadTest, ProbabilitiesOfBothClasses) {
  std::vector<float> logits = {0, std::log(3.0f), -1e-10f, 1e-10f};
  Predictions predictions(4, 2);
  const HeadResult result =
      LogisticHead().Forward({}, {0, 1, 0, 1}, absl::MakeSpan(logits), predictions.spans());
  EXPECT_THAT(predictions.probabilities,
              Pointwise(FloatNear(1e-6), {0.5f, 0.5f, 0.25f, 0.75f, 0.5f, 0.5f, 0.5f, 0.5f}));
  EXPECT_THAT(predictions.predicted, ElementsAre(0, 1, 0, 1)) << "where probabilities are equal";
  EXPECT_EQ(result.correct, 4);
}

void CheckRegression(const RegressionLoss& loss) {
  const RegressionHead head(loss);
  // Errors are 0.25, -0.5, 2, -3 and 0.75: none at a kink.
  const std::vector<float> targets = {1, 1.5, -1, 2, -0.25};
  std::vector<float> outputs = {1.25, 1, 1, -1, 0.5};
  std::vector<float> predictions(outputs.size());
  std::vector<float> gradient = outputs;
  head.Forward({}, targets, absl::MakeSpan(gradient), absl::MakeSpan(predictions));
  EXPECT_EQ(predictions, outputs);
  const auto value = [&] {
    std::vector<float> scratch = outputs;
    return head.Forward({}, targets, absl::MakeSpan(scratch), absl::MakeSpan(predictions)).loss_sum;
  };
  ExpectGradient({.what = "outputs"}, value, absl::MakeSpan(outputs), gradient);
}

TEST(RegressionHeadTest, Gradients) {
  CheckRegression({.kind = RegressionLoss::Kind::kSquared});
  CheckRegression({.kind = RegressionLoss::Kind::kAbsolute});
  CheckRegression({.kind = RegressionLoss::Kind::kHuber});
  CheckRegression({.kind = RegressionLoss::Kind::kHuber, .huber_delta = 0.4f});
}

TEST(RegressionHeadTest, Losses) {
  const auto loss = [](const RegressionLoss& of) {
    std::vector<float> outputs = {1, 4, -2};
    std::vector<float> predictions(3);
    const HeadResult result = RegressionHead(of).Forward({}, {1, 1, 0}, absl::MakeSpan(outputs),
                                                         absl::MakeSpan(predictions));
    EXPECT_EQ(result.correct, 0);
    return result.loss_sum;
  };
  EXPECT_DOUBLE_EQ(loss({.kind = RegressionLoss::Kind::kSquared}), 4.5 + 2);
  EXPECT_DOUBLE_EQ(loss({.kind = RegressionLoss::Kind::kAbsolute}), 3 + 2);
  EXPECT_DOUBLE_EQ(loss({.kind = RegressionLoss::Kind::kHuber}), 2.5 + 1.5);
  EXPECT_DOUBLE_EQ(loss({.kind = RegressionLoss::Kind::kHuber, .huber_delta = 2}), 4 + 2);
}

TEST(RegressionHeadTest, AnErrorOfZeroHasNoSlope) {
  std::vector<float> outputs = {3};
  std::vector<float> predictions(1);
  RegressionHead({.kind = RegressionLoss::Kind::kAbsolute})
      .Forward({}, {3}, absl::MakeSpan(outputs), absl::MakeSpan(predictions));
  EXPECT_THAT(outputs, ElementsAre(0));
}

}  // namespace
}  // namespace muster
