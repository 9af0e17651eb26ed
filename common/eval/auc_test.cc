#include "common/eval/auc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// By the definition: every pair of a positive and a negative example, a tie counting half.
double PairwiseAuc(const std::vector<float>& scores, const std::vector<uint8_t>& labels) {
  double ordered = 0;
  double pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] != 1 || labels[j] != 0) continue;
      pairs += 1;
      ordered += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  return ordered / pairs;
}

TEST(ExactAucTest, KnownOrders) {
  EXPECT_EQ(*ExactAuc({0.1f, 0.2f, 0.8f, 0.9f}, {0, 0, 1, 1}), 1);
  EXPECT_EQ(*ExactAuc({0.1f, 0.2f, 0.8f, 0.9f}, {1, 1, 0, 0}), 0);
  EXPECT_EQ(*ExactAuc({0.5f, 0.5f, 0.5f}, {0, 1, 0}), 0.5);
  EXPECT_EQ(*ExactAuc({0.1f, 0.4f, 0.35f, 0.8f}, {0, 0, 1, 1}), 0.75);
}

TEST(ExactAucTest, NegativeScoresAndZerosAreOrderedByValue) {
  EXPECT_EQ(*ExactAuc({-3.0f, -1.0f, 2.0f}, {0, 1, 1}), 1);
  EXPECT_EQ(*ExactAuc({-0.0f, 0.0f}, {1, 0}), 0.5);
  EXPECT_EQ(*ExactAuc({-std::numeric_limits<float>::infinity(), -1e30f}, {0, 1}), 1);
}

TEST(ExactAucTest, EqualsPairwiseDefinitionWithTies) {
  const Philox random(7, "test", "auc");
  for (int round = 0; round < 20; ++round) {
    std::vector<float> scores;
    std::vector<uint8_t> labels;
    for (int i = 0; i < 300; ++i) {
      // A coarse grid makes ties frequent.
      scores.push_back(std::floor(random.Uniform(i, 2 * round) * 23) / 23);
      labels.push_back(random.Uniform(i, 2 * round + 1) < 0.3f);
    }
    EXPECT_NEAR(*ExactAuc(scores, labels), PairwiseAuc(scores, labels), 1e-12) << round;
  }
}

TEST(ExactAucTest, OrderOfExamplesDoesNotMatter) {
  const Philox random(8, "test", "auc");
  std::vector<int> order(500);
  std::iota(order.begin(), order.end(), 0);
  double areas[2];
  for (double& area : areas) {
    std::vector<float> scores;
    std::vector<uint8_t> labels;
    for (int i : order) {
      scores.push_back(random.Uniform(i));
      labels.push_back(random.Uniform(i, 1) < scores.back());
    }
    area = *ExactAuc(scores, labels);
    std::reverse(order.begin(), order.end());
  }
  EXPECT_EQ(areas[0], areas[1]);
  EXPECT_GT(areas[0], 0.7);
}

TEST(ExactAucTest, OneClassHasNoArea) {
  const absl::Status one = ExactAuc({0.1f, 0.2f}, {1, 1}).status();
  EXPECT_EQ(one.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(one.message(), HasSubstr("2 positive and 0 negative"));
  EXPECT_THAT(ExactAuc({}, {}).status().message(), HasSubstr("0 positive and 0 negative"));
}

TEST(ExactAucTest, RefusesWhatIsNoScoreOrLabel) {
  EXPECT_THAT(ExactAuc({0.1f}, {1, 0}).status().message(), HasSubstr("1 scores and 2 labels"));
  EXPECT_THAT(ExactAuc({0.1f, 0.3f}, {1, 2}).status().message(), HasSubstr("example 1 is 2"));
  EXPECT_THAT(ExactAuc({0.1f, NAN}, {1, 0}).status().message(), HasSubstr("example 1 is NaN"));
}

TEST(BinnedAucTest, ApproachesTheExactArea) {
  const Philox random(9, "test", "auc");
  std::vector<float> scores;
  std::vector<uint8_t> labels;
  for (int i = 0; i < 5000; ++i) {
    scores.push_back(random.Uniform(i));
    labels.push_back(random.Uniform(i, 1) < scores.back());
  }
  ScoreBins bins;
  ASSERT_TRUE(AddToBins(scores, labels, bins).ok());
  EXPECT_NEAR(*BinnedAuc(bins.positive, bins.negative), *ExactAuc(scores, labels), 0.5 / 4096);
}

TEST(BinnedAucTest, IsExactWhereNoBinIsShared) {
  ScoreBins bins(4);
  // The edges of the interval belong to the first and last bin.
  ASSERT_TRUE(AddToBins({0.0f, 0.3f, 0.6f, 1.0f}, {0, 1, 0, 1}, bins).ok());
  EXPECT_EQ(*BinnedAuc(bins.positive, bins.negative), 0.75);
}

TEST(BinnedAucTest, CountsOfPartsAddUp) {
  ScoreBins whole(8);
  ScoreBins parts(8);
  ASSERT_TRUE(AddToBins({0.2f, 0.9f, 0.4f}, {0, 1, 1}, whole).ok());
  ASSERT_TRUE(AddToBins({0.2f}, {0}, parts).ok());
  ASSERT_TRUE(AddToBins({0.9f, 0.4f}, {1, 1}, parts).ok());
  EXPECT_EQ(whole.positive, parts.positive);
  EXPECT_EQ(whole.negative, parts.negative);
}

TEST(BinnedAucTest, RefusesWhatIsNoProbability) {
  ScoreBins bins(4);
  for (float score : {-0.1f, 1.5f, NAN}) {
    EXPECT_THAT(AddToBins({0.5f, score}, {0, 1}, bins).message(), HasSubstr("example 1"));
  }
  EXPECT_EQ(bins.negative, std::vector<uint64_t>(4)) << "a refused call must not count anything";
  EXPECT_THAT(BinnedAuc({1, 0}, {0, 0}).status().message(), HasSubstr("1 positive and 0 negative"));
  EXPECT_THAT(BinnedAuc({1, 0}, {0}).status().message(), HasSubstr("2 positive and 1 negative"));
}

}  // namespace
}  // namespace muster
