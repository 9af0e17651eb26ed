#include "server/coordinator/adjust/balance_shares.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "common/base/philox.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/adjust/decide.h"
#include "server/coordinator/adjust/describe.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A job of four data ranks that may be balanced after every ten steps.
class BalanceSharesTest : public testing::Test {
 protected:
  BalanceSharesTest() {
    *record_.mutable_spec() = SmallJob();
    record_.mutable_spec()->set_workers(4);
    record_.mutable_spec()->mutable_balance()->set_every_steps(10);
  }

  // Returns the parts that are decided, of which the record then knows; none: nothing changes.
  std::vector<uint32_t> Decide(uint64_t clock, std::vector<double> speeds) {
    AdjustmentFacts facts{.record = record_, .clock = clock};
    for (const double speed : speeds) {
      // Each data rank has two slots.
      const auto slot = static_cast<uint32_t>(2 * facts.speeds.size() + 1);
      facts.speeds.push_back({.examples_per_second = speed, .slot = slot});
    }
    const std::optional<v1::Adjustment> next = DecideAdjustment(facts);
    if (!next.has_value()) return {};
    *record_.add_adjustments() = *next;
    return {next->shares().begin(), next->shares().end()};
  }

  v1::JobRecord record_;
};

TEST_F(BalanceSharesTest, MovesHalfOfTheWay) {
  EXPECT_THAT(Decide(10, {2, 2, 1, 2}), ElementsAre(1071, 1071, 786, 1071));
  EXPECT_THAT(record_.adjustments(0).reason(),
              HasSubstr("slot 5 computes 1 examples a second, the fastest 2"));
  EXPECT_THAT(DescribeAdjustment({}, record_.adjustments(0)),
              HasSubstr("data ranks take 1.07, 1.07, 0.79, 1.07 of an equal share"));
  EXPECT_THAT(Decide(20, {2, 2, 1, 2}), ElementsAre(1107, 1107, 679, 1107));
}

TEST_F(BalanceSharesTest, ComesToRestNearTheSpeeds) {
  const std::vector<double> speeds = {3, 3, 1.5, 3};
  std::vector<uint32_t> last;
  for (uint64_t clock = 10; clock <= 200; clock += 10) {
    const std::vector<uint32_t> parts = Decide(clock, speeds);
    if (!parts.empty()) last = parts;
  }
  // The step lasts as long as its slowest rank; the best time is that of all speeds together.
  const double all = std::accumulate(last.begin(), last.end(), 0.0);
  double longest = 0;
  for (size_t i = 0; i < speeds.size(); ++i) longest = std::max(longest, last[i] / all / speeds[i]);
  EXPECT_GE(1 / 10.5 / longest, 0.93);
  EXPECT_LE(record_.adjustments_size(), 6);
}

TEST_F(BalanceSharesTest, ChangesAtItsIntervalIfItIsWorthIt) {
  EXPECT_THAT(Decide(11, {2, 2, 1, 2}), IsEmpty());
  EXPECT_THAT(Decide(10, {1.02, 1, 1, 0.98}), IsEmpty());
  record_.mutable_spec()->clear_balance();
  EXPECT_THAT(Decide(10, {2, 2, 1, 2}), IsEmpty());
}

TEST_F(BalanceSharesTest, RanksWithoutASpeedKeepTheirParts) {
  EXPECT_THAT(Decide(10, {2, 0, 1, 0}), ElementsAre(1167, 1000, 833, 1000));
  EXPECT_THAT(Decide(20, {0, 0, 0, 0}), IsEmpty());
  EXPECT_THAT(Decide(30, {}), IsEmpty());
}

TEST_F(BalanceSharesTest, AnotherNumberOfDataRanksBeginsWithEqualShares) {
  EXPECT_THAT(Decide(10, {2, 2, 1, 2}), ElementsAre(1071, 1071, 786, 1071));
  EXPECT_THAT(Decide(20, {2, 1}), ElementsAre(1167, 833));
}

TEST_F(BalanceSharesTest, SharesAreBounded) {
  record_.mutable_spec()->mutable_balance()->set_most(2);
  std::vector<uint32_t> last;
  for (uint64_t clock = 10; clock <= 200; clock += 10) {
    const std::vector<uint32_t> parts = Decide(clock, {100, 100, 100, 1});
    if (!parts.empty()) last = parts;
  }
  ASSERT_EQ(last.size(), 4u);
  const double all = std::accumulate(last.begin(), last.end(), 0.0);
  EXPECT_NEAR(4 * last[3] / all, 0.5, 0.06);
}

TEST_F(BalanceSharesTest, TheBatchGrowsBesideThem) {
  record_.mutable_spec()->set_batch_size(40);
  record_.mutable_spec()->mutable_adaptive_batch()->set_max_batch_size(200);
  record_.mutable_spec()->mutable_adaptive_batch()->set_every_steps(10);
  const AdjustmentFacts facts{.record = record_,
                              .clock = 10,
                              .noise_scale = 1e9,
                              .speeds = {{2, 0}, {2, 1}, {1, 2}, {2, 3}}};
  const std::optional<v1::Adjustment> next = DecideAdjustment(facts);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->batch_size(), 80u);
  EXPECT_THAT(next->shares(), ElementsAre(1071, 1071, 786, 1071));
  EXPECT_THAT(next->reason(), AllOf(HasSubstr("noise scale"), HasSubstr("slot 2 computes 1 ")));
  *record_.add_adjustments() = *next;
  // A later decision on one of them keeps the other.
  EXPECT_THAT(Decide(20, {2, 2, 1, 2}), ElementsAre(1107, 1107, 679, 1107));
  EXPECT_EQ(record_.adjustments(1).batch_size(), 80u);
}

TEST_F(BalanceSharesTest, OtherDecisionsDoNotWidenTheBound) {
  for (uint64_t clock = 1; clock <= 1000; ++clock) {
    v1::Adjustment& other = *record_.add_adjustments();
    other.set_clock(clock);
    other.set_rate_factor(0.5);
  }
  EXPECT_THAT(Decide(1010, {1.1, 1, 1, 1}), testing::Not(IsEmpty()));
}

// Speeds that are measured with an error of a tenth: the record stays short.
TEST_F(BalanceSharesTest, NoiseDecidesLessAndLess) {
  const Philox random(1, "balance_shares_test", "noise");
  uint64_t drawn = 0;
  for (uint64_t clock = 10; clock <= 100000; clock += 10) {
    std::vector<double> speeds;
    for (int i = 0; i < 4; ++i) {
      speeds.push_back(0.9 + 0.2 * static_cast<double>(random.Below(1000, drawn++)) / 1000);
    }
    Decide(clock, speeds);
  }
  EXPECT_LE(record_.adjustments_size(), 500);
}

}  // namespace
}  // namespace muster
