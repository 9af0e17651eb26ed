#include "server/shard/resources/replay_meter.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fake_clock_for_testing.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

TEST(ReplayMeterTest, CountsTheTimeInWhichAnyPartitionReplays) {
  FakeClock clock;
  ReplayMeter meter(clock);
  EXPECT_TRUE(meter.Replays().empty());
  {
    auto first = std::make_unique<ReplayMeter::Partition>(meter, "a", 3);
    clock.Advance(absl::Seconds(2));
    ReplayMeter::Partition second(meter, "a", 3);
    first->Add(100);
    second.Add(50);
    second.Add(50);
    first.reset();
    clock.Advance(absl::Seconds(1));
    ASSERT_EQ(meter.Replays().size(), 1u);
    EXPECT_EQ(meter.Replays()[0].seconds(), 3);
  }
  // Nobody is at it: a partition that moves here later does not make it slower.
  clock.Advance(absl::Seconds(100));
  {
    ReplayMeter::Partition third(meter, "a", 3);
    clock.Advance(absl::Seconds(1));
  }
  ReplayMeter::Partition other(meter, "b", 1);
  const std::vector<v1::ReplayStatus> replays = meter.Replays();
  ASSERT_EQ(replays.size(), 2u);
  EXPECT_EQ(replays[0].job_id(), "a");
  EXPECT_EQ(replays[0].generation(), 3u);
  EXPECT_EQ(replays[0].partitions(), 3u);
  EXPECT_EQ(replays[0].records(), 3u);
  EXPECT_EQ(replays[0].bytes(), 200u);
  EXPECT_EQ(replays[0].seconds(), 4);
  EXPECT_EQ(replays[1].job_id(), "b");
  EXPECT_EQ(replays[1].records(), 0u);
}

TEST(ReplayMeterTest, ForgetsGenerationsThatAreGone) {
  FakeClock clock;
  ReplayMeter meter(clock);
  for (const uint64_t generation : {1, 2, 3}) ReplayMeter::Partition(meter, "b", generation);
  ReplayMeter::Partition(meter, "a", 1);
  ReplayMeter::Partition(meter, "c", 1);
  meter.Forget("b", 2);
  std::vector<std::pair<std::string, uint64_t>> left;
  for (const v1::ReplayStatus& replay : meter.Replays()) {
    left.emplace_back(replay.job_id(), replay.generation());
  }
  EXPECT_EQ(left, (std::vector<std::pair<std::string, uint64_t>>{{"a", 1}, {"b", 3}, {"c", 1}}));
}

}  // namespace
}  // namespace muster
