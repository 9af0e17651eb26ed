// Random histories of jobs under faults; see server/shard/history_world.h.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/shard/history_world.h"

namespace muster {
namespace {

constexpr uint64_t kSeeds = 30;

struct Case {
  std::string name;
  std::optional<uint64_t> bound;
  bool deterministic = false;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

class HistoryTest : public testing::TestWithParam<std::tuple<Case, uint32_t, bool>> {};

TEST_P(HistoryTest, EveryContributionCountsOnceAndNothingIsStaler) {
  const auto& [mode, slots, durable] = GetParam();
  HistoryWorld::Tally sum;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    HistoryWorld::Options options;
    options.workload.slots = slots;
    options.workload.bound = mode.bound;
    options.workload.deterministic = mode.deterministic;
    options.workload.durable = durable;
    options.seed = seed;
    HistoryWorld world(options);
    const absl::Status status = world.Run();
    ASSERT_TRUE(status.ok()) << status;
    sum.server_crashes += world.tally().server_crashes;
    sum.rollbacks += world.tally().rollbacks;
    sum.respawns += world.tally().respawns;
    sum.repeats_found_applied += world.tally().repeats_found_applied;
    sum.ghosts_fenced += world.tally().ghosts_fenced;
    sum.largest_lag = std::max(sum.largest_lag, world.tally().largest_lag);
  }
  // The histories were eventful enough to mean something.
  EXPECT_GT(sum.server_crashes, 10);
  EXPECT_GT(sum.respawns, 30);
  EXPECT_GT(sum.repeats_found_applied, 30);
  EXPECT_GT(sum.ghosts_fenced, 30);
  EXPECT_EQ(sum.rollbacks > 0, !durable);
  if (slots > 1 && mode.bound != uint64_t{0}) {
    EXPECT_GT(sum.largest_lag, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Modes, HistoryTest,
    testing::Combine(testing::Values(Case{"Bsp", 0, false}, Case{"DeterministicBsp", 0, true},
                                     Case{"Ssp1", 1, false}, Case{"Ssp3", 3, false},
                                     Case{"Asp", std::nullopt, false}),
                     testing::Values(1, 2, 3, 4), testing::Bool()),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param).name, std::get<1>(info.param), "Slots",
                          std::get<2>(info.param) ? "EveryPush" : "Checkpoint");
    });

// Gradients whose sums depend on their order in the last bits.
TEST(DeterministicHistoryTest, HasTheSameBitsOnAnyServersAndUnderAnyFaults) {
  for (const uint32_t slots : {2, 4}) {
    HistoryWorld::Versions versions;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      HistoryWorld::Options options;
      options.workload.slots = slots;
      options.workload.partitions = 4;
      options.workload.deterministic = true;
      options.workload.durable = seed % 2 == 0;
      options.workload.inexact = true;
      options.servers = 1 << seed % 3;
      options.faults = seed == 0 ? 0 : 3;
      options.seed = seed;
      options.versions = &versions;
      HistoryWorld world(options);
      const absl::Status status = world.Run();
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_GT(versions.size(), 4u * 6);
  }
}

}  // namespace
}  // namespace muster
