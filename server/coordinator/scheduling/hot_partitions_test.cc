#include "server/coordinator/scheduling/hot_partitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "server/coordinator/cluster/shard_map.h"

namespace muster {
namespace {

// Partitions of a job by server, with the cores that each keeps busy.
using Placement = std::map<std::string, std::vector<double>>;

// A job whose partitions are numbered in the order of `placement`; each needs 100 bytes.
struct World {
  explicit World(const Placement& placement) {
    std::vector<ServerShare> shares;
    uint64_t partitions = 0;
    for (const auto& [server, cores] : placement) {
      std::vector<uint32_t> held;
      loads.servers[server] = 0;
      for (const double load : cores) {
        loads.partitions[partitions] = load;
        loads.servers[server] += load;
        held.push_back(partitions++);
      }
      const ServerIdentity identity = {server, 1, server + ":1"};
      if (!held.empty()) shares.push_back({identity, 100 * held.size(), held});
      capacity.servers.push_back({.identity = identity, .bytes = 100000, .free_bytes = 50000});
    }
    record.set_predicted_server_bytes(100 * partitions);
    DealShards(shares, record);
  }

  std::optional<HotMove> Next() const { return NextHotMove(record, loads, capacity, excluded); }

  void Apply(const HotMove& hot) {
    const auto to = std::find_if(
        capacity.servers.begin(), capacity.servers.end(),
        [&](const ServerCapacity& each) { return each.identity.server_id == hot.move.to; });
    MovePartition(hot.move.partition, to->identity, 100, record);
    loads.servers[hot.move.from] -= hot.partition;
    loads.servers[hot.move.to] += hot.partition;
  }

  double Busiest() const {
    double most = 0;
    for (const auto& [server, load] : loads.servers) most = std::max(most, load);
    return most;
  }

  v1::JobRecord record;
  MeasuredLoads loads;
  ClusterCapacity capacity;
  absl::flat_hash_set<std::string> excluded;
};

TEST(HotPartitionsTest, MovesWhatLeavesTheBusierOfTheTwoWithTheLeast) {
  const World world({{"a", {1.2, 0.5, 0.2}}, {"b", {0.3}}});
  const auto hot = world.Next();
  ASSERT_TRUE(hot.has_value());
  EXPECT_EQ(hot->move.partition, 1u);
  EXPECT_EQ(hot->move.from, "a");
  EXPECT_EQ(hot->move.to, "b");
  EXPECT_DOUBLE_EQ(hot->partition, 0.5);
  EXPECT_DOUBLE_EQ(hot->from, 1.9);
  EXPECT_DOUBLE_EQ(hot->to, 0.3);
}

TEST(HotPartitionsTest, LeavesSmallDifferencesAlone) {
  EXPECT_FALSE(World({{"a", {0.6, 0.5}}, {"b", {0.7}}}).Next()) << "within a quarter of the mean";
  EXPECT_TRUE(World({{"a", {0.6, 0.5}}, {"b", {0.3}}}).Next());
  EXPECT_FALSE(World({{"a", {0.06, 0.05}}, {"b", {0.03}}}).Next()) << "next to no work";
  EXPECT_FALSE(World({{"a", {2}}, {"b", {0.1}}}).Next()) << "one partition keeps it busy";
  EXPECT_FALSE(World({{"a", {2, 0.05}}, {"b", {0.1}}}).Next()) << "a tenth is not gained";
  EXPECT_FALSE(World({{"a", {2, 2}}}).Next()) << "there is no other server";
}

TEST(HotPartitionsTest, TheMeanIsOfAllServers) {
  EXPECT_TRUE(World({{"a", {0.5, 0.5}}, {"b", {0.9}}, {"c", {}}}).Next());
  const auto hot = World({{"a", {0.5, 0.5}}, {"b", {0.9}}, {"c", {0.2}}}).Next();
  ASSERT_TRUE(hot.has_value());
  EXPECT_EQ(hot->move.to, "c");
}

TEST(HotPartitionsTest, OnlyWhoHasRoomAndIsKnownAndMayIsATarget) {
  const Placement placement = {{"a", {1, 1}}, {"b", {0.1}}, {"c", {}}};
  EXPECT_EQ(World(placement).Next()->move.to, "c");
  World world(placement);
  world.excluded.insert("c");
  EXPECT_EQ(world.Next()->move.to, "b");
  world.capacity.servers[1].free_bytes = 99;
  EXPECT_FALSE(world.Next());
  world = World(placement);
  world.capacity.servers[2].free_bytes = 99;
  EXPECT_EQ(world.Next()->move.to, "b");
  world = World(placement);
  world.loads.servers.erase("c");
  EXPECT_EQ(world.Next()->move.to, "b");
  world = World(placement);
  world.record.mutable_spec()->set_servers(2);
  EXPECT_EQ(world.Next()->move.to, "b") << "the job is to have two servers";
  world.record.mutable_spec()->set_servers(3);
  EXPECT_EQ(world.Next()->move.to, "c");
}

TEST(HotPartitionsTest, AServerThatOthersKeepBusyIsLeft) {
  World world({{"a", {0.4}}, {"b", {0.4, 0.3}}});
  world.loads.servers["a"] += 2;
  const auto hot = world.Next();
  ASSERT_TRUE(hot.has_value());
  EXPECT_EQ(hot->move.from, "a");
  world.record.mutable_spec()->set_servers(2);
  EXPECT_FALSE(world.Next()) << "the job would have one server";
  world.record.mutable_spec()->set_servers(0);
  world.loads.servers["c"] = 9;
  EXPECT_FALSE(world.Next()) << "the busiest server is not the job's";
}

TEST(HotPartitionsTest, RemainsOfAnEarlierMoveAreKeptClearOf) {
  World world({{"a", {1, 1}}, {"b", {}}});
  for (uint32_t partition = 0; partition < 2; ++partition) {
    v1::MoveRecord& remains = *world.record.add_moves();
    remains.set_partition(partition);
    remains.set_from_server("b");
    remains.set_to_server("a");
    remains.set_state(v1::MoveRecord::MOVED);
    EXPECT_EQ(world.Next().has_value(), partition == 0);
  }
}

class RandomLoadsTest : public ::testing::TestWithParam<int> {};

TEST_P(RandomLoadsTest, ConstantLoadsComeToRest) {
  const Philox random(static_cast<uint64_t>(GetParam()));
  uint64_t draw = 0;
  Placement placement;
  const uint64_t servers = 2 + random.Below(6, ++draw);
  size_t partitions = 0;
  for (uint64_t i = 0; i < servers; ++i) {
    std::vector<double>& held = placement[absl::StrCat("s", i)];
    for (uint64_t n = random.Below(6, ++draw); n > 0; --n, ++partitions) {
      const double load = random.Uniform(++draw);
      // A few take most.
      held.push_back(2 * load * load * load);
    }
  }
  World world(placement);
  const double before = world.Busiest();
  double squares = 1e9;
  size_t moves = 0;
  for (auto hot = world.Next(); hot.has_value(); hot = world.Next()) {
    ASSERT_LE(++moves, 4 * partitions + 1) << "it goes on and on";
    const double left = std::max(hot->from - hot->partition, hot->to + hot->partition);
    EXPECT_LE(left, 0.9 * hot->from + 1e-9);
    world.Apply(*hot);
    double now = 0;
    for (const auto& [server, load] : world.loads.servers) now += load * load;
    EXPECT_LT(now, squares);
    squares = now;
  }
  EXPECT_LE(world.Busiest(), before + 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLoadsTest, ::testing::Range(0, 200));

}  // namespace
}  // namespace muster
