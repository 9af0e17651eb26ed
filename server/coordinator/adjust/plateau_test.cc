#include "server/coordinator/adjust/plateau.h"

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/adjust/decide.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PlateauTest : public testing::Test {
 protected:
  v1::PlateauSpec& spec() { return *record_.mutable_spec()->mutable_schedule()->mutable_plateau(); }

  void Evaluate(uint64_t clock, const std::string& metric, double value) {
    v1::EvaluationResult& added = *record_.add_evaluations();
    added.set_clock(clock);
    added.set_metric(metric);
    added.set_value(value);
  }

  std::optional<v1::Adjustment> Decide(uint64_t clock) {
    std::optional<v1::Adjustment> next =
        DecideAdjustment({.record = record_, .clock = clock, .noise_scale = absl::nullopt});
    if (next.has_value()) *record_.add_adjustments() = *next;
    return next;
  }

  // Returns the factor after each of these evaluations.
  std::vector<double> Factors(const std::string& metric, const std::vector<double>& values) {
    std::vector<double> factors;
    uint64_t clock = 0;
    for (const double value : values) {
      clock += 10;
      Evaluate(clock, metric, value);
      Decide(clock);
      factors.push_back(
          record_.adjustments().empty() ? 1 : record_.adjustments().rbegin()->rate_factor());
    }
    return factors;
  }

  v1::JobRecord record_;
};

// PyTorch 1.13 made these: what torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5,
// patience=1, cooldown=2, threshold=0.1, min_lr=0.2) does to a rate of 1.
TEST_F(PlateauTest, DecidesAsReduceLrOnPlateau) {
  spec().set_factor(0.5);
  spec().set_patience(1);
  spec().set_cooldown(2);
  spec().set_threshold(0.1);
  spec().set_min_factor(0.2);
  EXPECT_THAT(
      Factors("loss",
              {10, 9.5, 8, 7.9, 7.5, 7.4, 7.3, 7.25, 7.2, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0}),
      ElementsAre(1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2, 0.2));
}

TEST_F(PlateauTest, ToldOfTheReasonAndTheDefaults) {
  spec();
  std::vector<double> values(11, 2.0);
  EXPECT_EQ(Factors("loss", values).back(), 1) << "ten are allowed";
  Evaluate(120, "loss", 2.0);
  const std::optional<v1::Adjustment> lowered = Decide(120);
  ASSERT_TRUE(lowered.has_value());
  EXPECT_EQ(lowered->rate_factor(), 0.1);
  EXPECT_EQ(lowered->clock(), 120u);
  EXPECT_THAT(lowered->reason(),
              HasSubstr("11 evaluations in a row were no better than at step 10 (loss 2)"));
}

TEST_F(PlateauTest, HigherIsBetterForSomeMetrics) {
  spec().set_patience(1);
  EXPECT_THAT(Factors("accuracy", {0.5, 0.6, 0.7, 0.7, 0.6}), ElementsAre(1, 1, 1, 1, 0.1));
  record_.clear_evaluations();
  record_.clear_adjustments();
  EXPECT_THAT(Factors("r2", {-0.5, -0.4, -0.4, -0.4}), ElementsAre(1, 1, 1, 0.1));
}

TEST_F(PlateauTest, CountsNoEvaluationsWithoutAValue) {
  spec().set_patience(1);
  EXPECT_THAT(Factors("loss", {2, std::numeric_limits<double>::quiet_NaN(), 2}),
              ElementsAre(1, 1, 1));
}

TEST_F(PlateauTest, DecidesOnlyAtAnEvaluation) {
  spec().set_patience(1);
  Factors("loss", {2, 2});
  Evaluate(30, "loss", 2);
  EXPECT_FALSE(Decide(35).has_value());
  EXPECT_TRUE(Decide(30).has_value());
}

TEST_F(PlateauTest, CountsAnewAfterAnotherChangeOfTheRate) {
  spec().set_patience(1);
  Factors("loss", {2, 2});
  v1::Adjustment& other = *record_.add_adjustments();
  other.set_clock(25);
  other.set_rate_factor(0.5);
  other.set_batch_size(64);
  Evaluate(30, "loss", 2);
  EXPECT_FALSE(Decide(30).has_value());
  Evaluate(40, "loss", 2);
  const std::optional<v1::Adjustment> lowered = Decide(40);
  ASSERT_TRUE(lowered.has_value());
  EXPECT_DOUBLE_EQ(lowered->rate_factor(), 0.05);
  EXPECT_EQ(lowered->batch_size(), 64u) << "what it does not decide stays";
}

TEST_F(PlateauTest, JobsWithoutItGoOnAsTheyAre) {
  EXPECT_THAT(Factors("loss", std::vector<double>(15, 2.0)), testing::Each(1));
}

}  // namespace
}  // namespace muster
