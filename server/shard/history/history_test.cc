// Random histories of jobs under faults; see server/shard/history/history_world.h.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/shard/history/history_world.h"

namespace muster {
namespace {

constexpr uint64_t kSeeds = 30;
constexpr uint64_t kTieredSeeds = 12;

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
    options.workload.overflows = mode.bound == uint64_t{0} && seed % 2 == 0;
    options.workload.micro_batches = mode.bound == uint64_t{0} ? seed % 4 : 0;
    options.seed = seed;
    HistoryWorld world(options);
    const absl::Status status = world.Run();
    ASSERT_TRUE(status.ok()) << status;
    sum.loss_scales_told += world.tally().loss_scales_told;
    sum.loss_scales_kept += world.tally().loss_scales_kept;
    sum.server_crashes += world.tally().server_crashes;
    sum.disk_failures += world.tally().disk_failures;
    sum.rollbacks += world.tally().rollbacks;
    sum.respawns += world.tally().respawns;
    sum.repeats_found_applied += world.tally().repeats_found_applied;
    sum.ghosts_fenced += world.tally().ghosts_fenced;
    sum.largest_lag = std::max(sum.largest_lag, world.tally().largest_lag);
    sum.checkpoints += world.tally().checkpoints;
    sum.deltas += world.tally().deltas;
    sum.cuts_lost += world.tally().cuts_lost;
    sum.pushes_beside_writes += world.tally().pushes_beside_writes;
  }
  // The histories were eventful enough to mean something.
  EXPECT_GT(sum.server_crashes, 10);
  EXPECT_EQ(sum.disk_failures > 30, durable);
  EXPECT_GT(sum.respawns, 30);
  EXPECT_GT(sum.repeats_found_applied, 30);
  EXPECT_GT(sum.ghosts_fenced, 30);
  EXPECT_EQ(sum.rollbacks > 0, !durable);
  EXPECT_GT(sum.checkpoints, 30);
  EXPECT_GT(sum.deltas, 3);
  EXPECT_GT(sum.pushes_beside_writes, 30);
  EXPECT_EQ(sum.cuts_lost > 0, durable);
  EXPECT_EQ(sum.loss_scales_told > 100, mode.bound == uint64_t{0});
  EXPECT_EQ(sum.loss_scales_kept > 10, mode.bound == uint64_t{0});
  if (slots > 1 && mode.bound != uint64_t{0}) {
    EXPECT_GT(sum.largest_lag, 0u);
  }
}

using Parameters = HistoryTest::ParamType;

// Returns the parameters of a default run, in which each mode and each number of slots meets both
// kinds of durability, or all others.
std::vector<Parameters> Modes(bool by_default) {
  const std::vector<Case> modes = {{"Bsp", 0, false},
                                   {"DeterministicBsp", 0, true},
                                   {"Ssp1", 1, false},
                                   {"Ssp3", 3, false},
                                   {"Asp", std::nullopt, false}};
  std::vector<Parameters> parameters;
  for (size_t mode = 0; mode < modes.size(); ++mode) {
    for (const uint32_t slots : {1, 2, 3, 4}) {
      for (const bool durable : {false, true}) {
        const bool chosen = slots == (mode + (durable ? 2 : 0)) % 4 + 1;
        if (chosen == by_default) parameters.emplace_back(modes[mode], slots, durable);
      }
    }
  }
  return parameters;
}

std::string NameOf(const testing::TestParamInfo<Parameters>& info) {
  return absl::StrCat(std::get<0>(info.param).name, std::get<1>(info.param), "Slots",
                      std::get<2>(info.param) ? "EveryPush" : "Checkpoint");
}

INSTANTIATE_TEST_SUITE_P(Modes, HistoryTest, testing::ValuesIn(Modes(/*by_default=*/true)), NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveModes, HistoryTest,
                         testing::ValuesIn(Modes(/*by_default=*/false)), NameOf);

// The same with room in memory for a part of the rows alone.
struct RowsCase {
  std::string name;
  std::optional<uint64_t> bound;
  bool deterministic = false;
  uint32_t admit_after = 0;
  uint64_t expire_after = 0;
  uint32_t keep_from = 0;

  friend std::ostream& operator<<(std::ostream& out, const RowsCase& c) { return out << c.name; }
};

class TieredHistoryTest : public testing::TestWithParam<std::tuple<RowsCase, uint32_t, bool>> {};

TEST_P(TieredHistoryTest, EvictedRowsCountOnceAsWell) {
  const auto& [mode, slots, durable] = GetParam();
  HistoryWorld::Tally sum;
  for (uint64_t seed = 0; seed < kTieredSeeds; ++seed) {
    HistoryWorld::Options options;
    options.workload.slots = slots;
    options.workload.clocks = 10;
    options.workload.bound = mode.bound;
    options.workload.deterministic = mode.deterministic;
    options.workload.durable = durable;
    // A row takes 72 bytes, a partition has 8.
    options.workload.rows.set_cache_bytes(options.workload.partitions * 72 * (1 + seed % 4));
    options.workload.rows.set_admit_after(mode.admit_after);
    options.workload.rows.set_expire_after_clocks(mode.expire_after);
    options.workload.rows.set_keep_from_updates(mode.keep_from);
    options.seed = seed;
    HistoryWorld world(options);
    const absl::Status status = world.Run();
    ASSERT_TRUE(status.ok()) << status;
    sum.server_crashes += world.tally().server_crashes;
    sum.most_rows_on_disk += world.tally().most_rows_on_disk;
  }
  EXPECT_GT(sum.server_crashes, 5);
  EXPECT_GT(sum.most_rows_on_disk, 3 * kTieredSeeds);
}

using RowsParameters = TieredHistoryTest::ParamType;

// Returns the parameters of a default run, in which every two of mode, slots and durability meet,
// or all others.
std::vector<RowsParameters> RowsModes(bool by_default) {
  const std::vector<RowsCase> modes = {{"Bsp", 0},
                                       {"DeterministicBsp", 0, true},
                                       {"Ssp2", 2},
                                       {"Asp", std::nullopt},
                                       {"Admits3", 0, false, 3},
                                       {"Expires2", 0, true, 0, 2},
                                       {"AdmitsExpiresKeeps", 0, true, 2, 2, 2}};
  std::vector<RowsParameters> parameters;
  for (size_t mode = 0; mode < modes.size(); ++mode) {
    for (const uint32_t slots : {1, 3}) {
      for (const bool durable : {false, true}) {
        const bool chosen = durable == ((slots == 1) == (mode % 2 == 0));
        if (chosen == by_default) parameters.emplace_back(modes[mode], slots, durable);
      }
    }
  }
  return parameters;
}

std::string NameOfRows(const testing::TestParamInfo<RowsParameters>& info) {
  return absl::StrCat(std::get<0>(info.param).name, std::get<1>(info.param), "Slots",
                      std::get<2>(info.param) ? "EveryPush" : "Checkpoint");
}

INSTANTIATE_TEST_SUITE_P(Modes, TieredHistoryTest,
                         testing::ValuesIn(RowsModes(/*by_default=*/true)), NameOfRows);
INSTANTIATE_TEST_SUITE_P(ExhaustiveModes, TieredHistoryTest,
                         testing::ValuesIn(RowsModes(/*by_default=*/false)), NameOfRows);

// Gradients whose sums depend on their order in the last bits. Compares the run of seed 0, without
// faults, with those of seeds [begin, end).
void ExpectTheSameBits(uint64_t begin, uint64_t end) {
  for (const auto& [slots, micro_batches] :
       std::vector<std::pair<uint32_t, uint32_t>>{{2, 0}, {4, 0}, {3, 3}}) {
    HistoryWorld::Versions versions;
    std::vector<uint64_t> seeds = {0};
    for (uint64_t seed = begin; seed < end; ++seed) seeds.push_back(seed);
    for (const uint64_t seed : seeds) {
      HistoryWorld::Options options;
      options.workload.slots = slots;
      options.workload.partitions = 4;
      options.workload.deterministic = true;
      options.workload.durable = seed % 2 == 0;
      options.workload.inexact = true;
      options.workload.micro_batches = micro_batches;
      // Half of the runs without room for all rows.
      if (seed / 2 % 2 == 1) options.workload.rows.set_cache_bytes(4 * 72 * 2);
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

// In twelve seeds all numbers of servers, kinds of durability and sizes of memory come together.
TEST(DeterministicHistoryTest, HasTheSameBitsOnAnyServersAndUnderAnyFaults) {
  ExpectTheSameBits(1, 12);
}

TEST(DeterministicHistoryTest, HasTheSameBitsOnAnyServersAndUnderAnyFaultsExhaustive) {
  ExpectTheSameBits(12, 40);
}

}  // namespace
}  // namespace muster
