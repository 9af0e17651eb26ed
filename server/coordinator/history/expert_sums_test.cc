#include "server/coordinator/history/expert_sums.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status.pb.h"
#include "server/coordinator/history/expert_load_window.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

v1::ExpertLoads Loads(const std::vector<uint32_t>& blocks, const std::vector<uint64_t>& tokens) {
  v1::ExpertLoads loads;
  loads.set_experts(static_cast<uint32_t>(tokens.size() / blocks.size()));
  loads.mutable_blocks()->Add(blocks.begin(), blocks.end());
  loads.mutable_tokens()->Add(tokens.begin(), tokens.end());
  return loads;
}

v1::ExpertLoads Copy(const ExpertSums& sums) {
  v1::ExpertLoads copy;
  sums.CopyTo(copy);
  return copy;
}

TEST(ExpertSumsTest, StagesReportDifferentBlocksAndDataRanksTheSame) {
  ExpertSums sums;
  EXPECT_TRUE(sums.empty());
  sums.Add(Loads({3}, {1, 2, 3}));
  sums.Add(Loads({0, 1}, {1, 1, 1, 0, 5, 0}));
  sums.Add(Loads({3}, {10, 0, 1}));
  const v1::ExpertLoads copy = Copy(sums);
  EXPECT_EQ(copy.experts(), 3);
  EXPECT_THAT(copy.blocks(), ElementsAre(0, 1, 3));
  EXPECT_THAT(copy.tokens(), ElementsAre(1, 1, 1, 0, 5, 0, 11, 2, 4));
}

TEST(ExpertSumsTest, DroppedChoicesAreSumsByBlock) {
  ExpertSums sums;
  sums.Add(Loads({0, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(Copy(sums).dropped_size(), 0);
  EXPECT_EQ(sums.DroppedShare(), 0);
  v1::ExpertLoads dropping = Loads({2}, {5, 5});
  dropping.add_dropped(3);
  ExpertSums others;
  others.Add(dropping);
  sums.Add(others);
  sums.Add(dropping);
  EXPECT_EQ(Copy(sums).dropped(0), 0);
  EXPECT_EQ(Copy(sums).dropped(1), 6);
  EXPECT_DOUBLE_EQ(sums.DroppedShare(), 6.0 / 36);
}

TEST(ExpertSumsTest, TheRangeIsThatOfAnyBlockOverItsMean) {
  ExpertSums sums;
  EXPECT_FALSE(sums.Range().has_value());
  sums.Add(Loads({1}, {0, 0, 0, 0}));
  EXPECT_FALSE(sums.Range().has_value()) << "no expert has tokens";
  // Means of 4 and 2.
  sums.Add(Loads({0}, {4, 2, 6, 4}));
  EXPECT_DOUBLE_EQ(sums.Range()->lowest, 0.5);
  EXPECT_DOUBLE_EQ(sums.Range()->highest, 1.5);
  sums.Add(Loads({2}, {5, 1, 2, 0}));
  EXPECT_DOUBLE_EQ(sums.Range()->lowest, 0);
  EXPECT_DOUBLE_EQ(sums.Range()->highest, 2.5);
}

TEST(ExpertLoadWindowTest, CoversHalfAMinuteToAWholeOne) {
  ExpertLoadWindow window;
  EXPECT_TRUE(window.sums().empty());
  const auto tokens = [&](absl::Duration now) {
    window.Add(Loads({0}, {1, 2}), now);
    return Copy(window.sums()).tokens(0);
  };
  EXPECT_EQ(tokens(absl::Seconds(100)), 1);
  EXPECT_EQ(tokens(absl::Seconds(129)), 2);
  EXPECT_EQ(tokens(absl::Seconds(130)), 3);
  EXPECT_EQ(tokens(absl::Seconds(159)), 4);
  EXPECT_EQ(tokens(absl::Seconds(160)), 3) << "those before 130 s are out";
  window.Clear();
  EXPECT_TRUE(window.sums().empty());
}

TEST(ExpertLoadWindowTest, LongStepsAreTwo) {
  ExpertLoadWindow window;
  for (int step = 0; step < 4; ++step) {
    for (int task = 0; task < 3; ++task) {
      window.Add(Loads({0}, {1, 1}), absl::Seconds(300 * step + task));
    }
  }
  EXPECT_THAT(Copy(window.sums()).tokens(), ElementsAre(6, 6));
}

}  // namespace
}  // namespace muster
