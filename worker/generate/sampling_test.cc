#include "worker/generate/sampling.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Shares with which each token comes, by draws spread evenly over [0, 1): exact up to 1 / draws.
std::map<int32_t, double> Shares(const std::vector<float>& logits, const SamplingOptions& options) {
  constexpr int kDraws = 20000;
  std::map<int32_t, double> shares;
  for (int i = 0; i < kDraws; ++i) {
    const auto token = SampleToken(logits, options, (i + 0.5) / kDraws);
    EXPECT_TRUE(token.ok()) << token.status();
    shares[*token] += 1.0 / kDraws;
  }
  return shares;
}

std::vector<float> Logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  // A constant added to all must not count.
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + 5));
  return logits;
}

constexpr double kTolerance = 2e-4;

TEST(SamplingTest, DrawsBySoftmax) {
  const std::vector<double> expected = {0.1, 0.4, 0.2, 0.3};
  const auto shares = Shares(Logs(expected), {});
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(shares.at(i), expected[i], kTolerance) << i;
}

TEST(SamplingTest, TemperatureSharpensAndFlattens) {
  const std::vector<double> p = {0.1, 0.4, 0.2, 0.3};
  for (const double temperature : {0.25, 0.5, 2.0, 7.0}) {
    double sum = 0;
    for (const double each : p) sum += std::pow(each, 1 / temperature);
    const auto shares = Shares(Logs(p), {.temperature = temperature});
    for (int i = 0; i < 4; ++i) {
      const double expected = std::pow(p[i], 1 / temperature) / sum;
      EXPECT_NEAR(shares.count(i) ? shares.at(i) : 0, expected, kTolerance) << temperature;
    }
  }
}

TEST(SamplingTest, TemperatureZeroTakesTheFirstOfTheMostLikely) {
  SamplingOptions greedy;
  greedy.temperature = 0;
  for (const double uniform : {0.0, 0.5, 0.999999}) {
    EXPECT_EQ(*SampleToken(std::vector<float>{1, 3, 2, 3}, greedy, uniform), 1);
    EXPECT_EQ(*SampleToken(std::vector<float>{-5}, greedy, uniform), 0);
  }
}

TEST(SamplingTest, TopKLeavesTheMostLikely) {
  const auto shares = Shares(Logs({0.1, 0.4, 0.2, 0.3}), {.top_k = 2});
  EXPECT_EQ(shares.size(), 2u);
  EXPECT_NEAR(shares.at(1), 0.4 / 0.7, kTolerance);
  EXPECT_NEAR(shares.at(3), 0.3 / 0.7, kTolerance);
  EXPECT_EQ(Shares(Logs({0.1, 0.4, 0.2, 0.3}), {.top_k = 1}).size(), 1u);
  EXPECT_EQ(Shares(Logs({0.1, 0.4, 0.2, 0.3}), {.top_k = 100}).size(), 4u);
  // Of equally likely ones those with the smaller ids.
  const auto equal = Shares({2, 2, 2, 2}, {.top_k = 2});
  EXPECT_EQ(equal.size(), 2u);
  EXPECT_NEAR(equal.at(0), 0.5, kTolerance);
  EXPECT_NEAR(equal.at(1), 0.5, kTolerance);
}

TEST(SamplingTest, TopPLeavesTheFewestThatReachIt) {
  const std::vector<float> logits = Logs({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(Shares(logits, {.top_p = 0.3}).size(), 1u);
  const auto two = Shares(logits, {.top_p = 0.6});
  EXPECT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(1), 0.4 / 0.7, kTolerance);
  EXPECT_EQ(Shares(logits, {.top_p = 0.8}).size(), 3u);
  EXPECT_EQ(Shares(logits, {.top_p = 0.95}).size(), 4u);
  EXPECT_EQ(Shares(logits, {.top_p = 1e-9}).size(), 1u) << "one is always left";
}

TEST(SamplingTest, TheStepsAreTakenInOrder) {
  // Of the three most likely, rescaled to 4/9, 3/9, 2/9, two reach 0.75.
  const auto shares = Shares(Logs({0.1, 0.4, 0.2, 0.3}), {.top_k = 3, .top_p = 0.75});
  EXPECT_EQ(shares.size(), 2u);
  // By temperature 0.5 they are 16, 9, 4 of 29: the first alone has 0.55.
  EXPECT_EQ(
      Shares(Logs({0.1, 0.4, 0.2, 0.3}), {.temperature = 0.5, .top_k = 3, .top_p = 0.55}).size(),
      1u);
}

TEST(SamplingTest, ExtremeLogitsAreNoTrouble) {
  EXPECT_EQ(*SampleToken(std::vector<float>{-3e38f, 3e38f, 0}, {}, 0.3), 1);
  EXPECT_EQ(*SampleToken(std::vector<float>{1000, -1000}, {.temperature = 1e-9}, 0.999), 0);
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> logits(1 + random() % 50);
    for (float& logit : logits) logit = static_cast<float>(static_cast<int>(random() % 200) - 100);
    SamplingOptions options;
    options.temperature = (random() % 40) / 10.0;
    options.top_k = random() % 60;
    options.top_p = (1 + random() % 100) / 100.0;
    const auto token = SampleToken(logits, options, (random() % 1000000) / 1e6);
    ASSERT_TRUE(token.ok());
    EXPECT_GE(*token, 0);
    EXPECT_LT(*token, static_cast<int32_t>(logits.size()));
  }
  // The largest draw below 1 never picks a token of no weight.
  const double last = std::nextafter(1.0, 0.0);
  EXPECT_EQ(*SampleToken(std::vector<float>{0, 0, -3e38f}, {}, last), 1);
}

TEST(SamplingTest, RefusesWhatCannotBe) {
  EXPECT_THAT(std::string(SampleToken({}, {}, 0).status().message()), HasSubstr("no logits"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(std::string(SampleToken(std::vector<float>{1, nan}, {}, 0).status().message()),
              HasSubstr("the logit of token 1 is nan"));
  EXPECT_TRUE(ValidateSampling({}).ok());
  EXPECT_THAT(std::string(ValidateSampling({.temperature = -1}).message()),
              HasSubstr("temperature is -1"));
  EXPECT_FALSE(ValidateSampling({.temperature = std::nan("")}).ok());
  EXPECT_THAT(std::string(ValidateSampling({.top_k = -2}).message()), HasSubstr("top-k is -2"));
  EXPECT_THAT(std::string(ValidateSampling({.top_p = 0}).message()), HasSubstr("top-p is 0"));
  EXPECT_FALSE(ValidateSampling({.top_p = 1.5}).ok());
}

}  // namespace
}  // namespace muster
