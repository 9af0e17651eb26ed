#include "common/checkpoint/checkpoint_name.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(CheckpointNameTest, TakesAJobWithOrWithoutAClock) {
  const auto last = ParseCheckpointName("j1-8f");
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->job_id, "j1-8f");
  EXPECT_FALSE(last->clock.has_value());
  const auto first = ParseCheckpointName("j1-8f@0");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->job_id, "j1-8f");
  EXPECT_EQ(first->clock, 0u);
  EXPECT_EQ(ParseCheckpointName("j@18446744073709551615")->clock, ~uint64_t{0});
}

TEST(CheckpointNameTest, TakesTheBest) {
  const auto best = ParseCheckpointName("j1-8f@best");
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ(best->job_id, "j1-8f");
  EXPECT_TRUE(best->best);
  EXPECT_FALSE(best->clock.has_value());
  EXPECT_FALSE(ParseCheckpointName("j1-8f")->best);
  EXPECT_FALSE(ParseCheckpointName("best@4")->best);
}

TEST(CheckpointNameTest, RefusesOthersByTheirText) {
  for (const char* text : {"", "@7", "j1@", "j1@x", "j1@-1", "j1@+1", "j1@ 1", "j1@7@8", "j1@1.5",
                           "j1@18446744073709551616", "j1@Best", "j1@best ", "j1@last", "@best"}) {
    const auto name = ParseCheckpointName(text);
    EXPECT_EQ(name.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(name.status().message()),
                testing::AllOf(testing::HasSubstr(std::string("\"") + text + "\""),
                               testing::HasSubstr("JOB@CLOCK"), testing::HasSubstr("JOB@best")));
  }
}

}  // namespace
}  // namespace muster
