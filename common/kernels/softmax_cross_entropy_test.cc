#include "common/kernels/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "common/kernels/arrays_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

struct Batch {
  int64_t B, C;
  std::vector<float> logits;
  std::vector<int32_t> labels;
};

Batch RandomBatch(int64_t B, int64_t C, float spread, uint32_t seed) {
  Batch batch = {B, C, std::vector<float>(B * C), std::vector<int32_t>(B)};
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  for (float& x : batch.logits) x = normal(random);
  for (int32_t& label : batch.labels) label = random() % C;
  return batch;
}

// Loss of each row in f64, straight from the definition; fills softmax rows.
std::vector<double> Reference(const Batch& batch, std::vector<double>& softmax) {
  std::vector<double> losses(batch.B);
  softmax.resize(batch.B * batch.C);
  for (int64_t b = 0; b < batch.B; ++b) {
    const float* x = &batch.logits[b * batch.C];
    const double maximum = *std::max_element(x, x + batch.C);
    double sum = 0;
    for (int64_t c = 0; c < batch.C; ++c) sum += std::exp(x[c] - maximum);
    for (int64_t c = 0; c < batch.C; ++c) {
      softmax[b * batch.C + c] = std::exp(x[c] - maximum) / sum;
    }
    losses[b] = maximum + std::log(sum) - x[batch.labels[b]];
  }
  return losses;
}

TEST(SoftmaxCrossEntropyTest, EqualsItsDefinitionInF64) {
  for (int64_t C : {1, 2, 10, 16, 17, 256, 1000}) {
    for (float spread : {0.0f, 1.0f, 30.0f, 1000.0f}) {
      const Batch batch = RandomBatch(23, C, spread, C);
      std::vector<double> softmax;
      const std::vector<double> losses = Reference(batch, softmax);
      double loss = 0;
      int64_t correct = 0;
      for (int64_t b = 0; b < batch.B; ++b) {
        loss += losses[b];
        const auto row = batch.logits.begin() + b * C;
        correct += std::max_element(row, row + C) - row == batch.labels[b];
      }

      std::vector<float> dlogits(batch.B * C, kNan);
      const LossSums sums =
          SoftmaxCrossEntropy(batch.B, C, batch.logits.data(), batch.labels.data(), dlogits.data());
      EXPECT_NEAR(sums.loss, loss, 1e-6 * (batch.B + loss)) << "C " << C << ", spread " << spread;
      EXPECT_EQ(sums.correct, correct);
      for (int64_t i = 0; i < batch.B * C; ++i) {
        const double expected = softmax[i] - (i % C == batch.labels[i / C] ? 1 : 0);
        ASSERT_NEAR(dlogits[i], expected, 5e-7) << "C " << C << ", spread " << spread;
      }
      std::vector<float> probabilities(batch.B * C, kNan);
      Softmax(batch.B, C, batch.logits.data(), probabilities.data());
      for (int64_t i = 0; i < batch.B * C; ++i) {
        if (i % C == batch.labels[i / C]) probabilities[i] -= 1.0f;
      }
      EXPECT_EQ(probabilities, dlogits) << "before labels are taken away";

      std::vector<float> in_place = batch.logits;
      SoftmaxCrossEntropy(batch.B, C, in_place.data(), batch.labels.data(), in_place.data());
      EXPECT_EQ(in_place, dlogits);
    }
  }
}

// Small probabilities keep their relative accuracy: gradients of rare classes are small, not wrong.
TEST(SoftmaxCrossEntropyTest, SmallProbabilitiesAreRelativelyExact) {
  for (float x = 0; x > -80; x -= 0.37f) {
    const std::vector<float> logits = {0, x, -3};
    const int32_t label = 0;
    std::vector<float> dlogits(3);
    SoftmaxCrossEntropy(1, 3, logits.data(), &label, dlogits.data());
    const double expected = std::exp(double{x}) / (1 + std::exp(double{x}) + std::exp(-3.0));
    ASSERT_NEAR(dlogits[1] / expected, 1, 5e-7) << x;
  }
}

TEST(SoftmaxCrossEntropyTest, GradientMatchesFiniteDifferences) {
  Batch batch = RandomBatch(3, 7, 1, 1);
  std::vector<float> dlogits(21), unused(21);
  SoftmaxCrossEntropy(3, 7, batch.logits.data(), batch.labels.data(), dlogits.data());
  constexpr float kStep = 1e-2f;
  for (int i = 0; i < 21; ++i) {
    const float x = batch.logits[i];
    const auto loss_at = [&](float value) {
      batch.logits[i] = value;
      return SoftmaxCrossEntropy(3, 7, batch.logits.data(), batch.labels.data(), unused.data())
          .loss;
    };
    const double slope = (loss_at(x + kStep) - loss_at(x - kStep)) / (2 * kStep);
    batch.logits[i] = x;
    EXPECT_NEAR(dlogits[i], slope, 1e-4);
  }
}

TEST(SoftmaxCrossEntropyTest, TiesGoToTheFirst) {
  const std::vector<float> logits = {1, 1, 0, 1, 1, 0};
  const std::vector<int32_t> labels = {0, 1};
  std::vector<float> dlogits(6);
  EXPECT_EQ(SoftmaxCrossEntropy(2, 3, logits.data(), labels.data(), dlogits.data()).correct, 1);
}

TEST(SoftmaxCrossEntropyTest, NanReachesLossAndGradientOfItsRow) {
  for (int64_t C : {3, 40}) {
    for (int64_t at : {int64_t{0}, C - 1}) {
      std::vector<float> logits(2 * C, 0.5f), dlogits(2 * C);
      logits[at] = kNan;
      logits[1] = 4;
      const std::vector<int32_t> labels = {1, 0};
      const LossSums sums = SoftmaxCrossEntropy(2, C, logits.data(), labels.data(), dlogits.data());
      EXPECT_TRUE(std::isnan(sums.loss));
      EXPECT_EQ(sums.correct, 1)
          << "The second row's tie goes to class 0; the first is not counted.";
      for (int64_t i = 0; i < 2 * C; ++i) EXPECT_EQ(std::isnan(dlogits[i]), i < C);
    }
  }
}

TEST(SoftmaxCrossEntropyTest, EmptyBatchHasNoLoss) {
  const LossSums sums = SoftmaxCrossEntropy(0, 5, nullptr, nullptr, nullptr);
  EXPECT_EQ(sums.loss, 0);
  EXPECT_EQ(sums.correct, 0);
}

TEST(LogisticCrossEntropyTest, EqualsItsDefinition) {
  const std::vector<float> logits = {0, 1.5f, -1.5f, 10, -10};
  for (int32_t label : {0, 1}) {
    const std::vector<int32_t> labels(logits.size(), label);
    std::vector<float> scores(logits.size()), dlogits(logits.size());
    const LossSums sums = LogisticCrossEntropy(logits.size(), logits.data(), labels.data(),
                                               scores.data(), dlogits.data());
    double loss = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double score = 1 / (1 + std::exp(-double{logits[i]}));
      loss -= std::log(label == 1 ? score : 1 - score);
      EXPECT_FLOAT_EQ(scores[i], score);
      EXPECT_NEAR(dlogits[i], score - label, 1e-7);
    }
    EXPECT_NEAR(sums.loss, loss, 1e-9);
    EXPECT_EQ(sums.correct, label == 1 ? 2 : 3) << "A logit of 0 predicts class 0.";
  }
}

TEST(LogisticCrossEntropyTest, HugeLogitsNeitherOverflowNorVanish) {
  const std::vector<float> logits = {1000, -1000, 1000, -1000, -50};
  const std::vector<int32_t> labels = {1, 0, 0, 1, 0};
  std::vector<float> scores(5), dlogits(5);
  const LossSums sums =
      LogisticCrossEntropy(5, logits.data(), labels.data(), scores.data(), dlogits.data());
  EXPECT_NEAR(sums.loss, 2000, 1e-9);
  EXPECT_EQ(sums.correct, 3);
  EXPECT_FLOAT_EQ(scores[4], std::exp(-50.0));
  scores[4] = 0;
  EXPECT_THAT(scores, ElementsAre(1, 0, 1, 0, 0));
  EXPECT_THAT(dlogits, ElementsAre(0, 0, 1, -1, std::exp(-50.0f)));
}

TEST(LogisticCrossEntropyTest, GradientMatchesFiniteDifferences) {
  for (int32_t label : {0, 1}) {
    for (float x : {-3.0f, -0.4f, 0.0f, 2.0f}) {
      constexpr float kStep = 1e-2f;
      float score, unused, dlogit;
      const auto loss_at = [&](float value) {
        return LogisticCrossEntropy(1, &value, &label, &score, &unused).loss;
      };
      LogisticCrossEntropy(1, &x, &label, &score, &dlogit);
      EXPECT_NEAR(dlogit, (loss_at(x + kStep) - loss_at(x - kStep)) / (2 * kStep), 1e-4);
    }
  }
}

TEST(LogisticCrossEntropyTest, NanReachesItsOutputs) {
  const std::vector<float> logits = {kNan, 1};
  const std::vector<int32_t> labels = {0, 1};
  std::vector<float> scores(2), dlogits(2);
  const LossSums sums =
      LogisticCrossEntropy(2, logits.data(), labels.data(), scores.data(), dlogits.data());
  EXPECT_TRUE(std::isnan(sums.loss));
  EXPECT_EQ(sums.correct, 1);
  EXPECT_TRUE(std::isnan(scores[0]) && std::isnan(dlogits[0]));
  EXPECT_FALSE(std::isnan(scores[1]) || std::isnan(dlogits[1]));
}

}  // namespace
}  // namespace muster
