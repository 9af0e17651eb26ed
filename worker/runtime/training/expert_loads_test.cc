#include "worker/runtime/training/expert_loads.h"

#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ExpertLoadsTest, TheRangeIsThatOfAnyBlockOverItsMean) {
  // Means of 4 and 2; the block in the middle is dense.
  const std::vector<uint64_t> loads = {4, 2, 6, 4, 0, 0, 0, 0, 5, 1, 2, 0};
  const auto range = LoadRangeOf(loads, 4);
  ASSERT_TRUE(range.has_value());
  EXPECT_DOUBLE_EQ(range->lowest, 0);
  EXPECT_DOUBLE_EQ(range->highest, 2.5);
  const auto first = LoadRangeOf(absl::MakeConstSpan(loads).subspan(0, 8), 4);
  ASSERT_TRUE(first.has_value());
  EXPECT_DOUBLE_EQ(first->lowest, 0.5);
  EXPECT_DOUBLE_EQ(first->highest, 1.5);
}

TEST(ExpertLoadsTest, WithoutTokensThereIsNone) {
  EXPECT_FALSE(LoadRangeOf({}, 0).has_value());
  EXPECT_FALSE(LoadRangeOf(std::vector<uint64_t>(8), 4).has_value());
}

}  // namespace
}  // namespace muster
