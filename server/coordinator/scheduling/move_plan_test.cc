#include "server/coordinator/scheduling/move_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/coordinator/cluster/shard_map.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Six partitions of 100 bytes each on "a" (0, 2, 4) and "b" (1, 3, 5).
v1::JobRecord TestRecord() {
  v1::JobRecord record;
  record.set_job_id("j1");
  record.set_predicted_server_bytes(600);
  DealShards({{{"a", 1, "a:1"}, 300, {0, 2, 4}}, {{"b", 2, "b:1"}, 300, {1, 3, 5}}}, record);
  return record;
}

ServerCapacity Room(const std::string& id, uint64_t free_bytes) {
  return {.identity = {id, 1, id + ":1"}, .bytes = 1000, .free_bytes = free_bytes};
}

TEST(NextMoveTest, NothingMovesUnasked) {
  const auto move = NextMove(TestRecord(), {.servers = {Room("a", 500), Room("c", 900)}}, {}, {});
  ASSERT_TRUE(move.ok());
  EXPECT_FALSE(move->has_value());
}

TEST(NextMoveTest, ADrainedServersPartitionsGoWhereTheFewestAre) {
  const auto move =
      NextMove(TestRecord(), {.servers = {Room("b", 900), Room("c", 100)}}, {"a"}, {});
  ASSERT_TRUE(move.ok() && move->has_value()) << move.status();
  EXPECT_EQ((*move)->partition, 0u);
  EXPECT_EQ((*move)->from, "a");
  EXPECT_EQ((*move)->to, "c");
}

TEST(NextMoveTest, RoomCountsBeforeEvenness) {
  const auto move = NextMove(TestRecord(), {.servers = {Room("b", 100), Room("c", 99)}}, {"a"}, {});
  ASSERT_TRUE(move.ok() && move->has_value());
  EXPECT_EQ((*move)->to, "b");
}

TEST(NextMoveTest, SaysWhatIsMissing) {
  const auto move = NextMove(TestRecord(), {.servers = {Room("b", 20), Room("c", 99)}}, {"a"}, {});
  EXPECT_TRUE(absl::IsResourceExhausted(move.status()));
  EXPECT_THAT(move.status().message(),
              HasSubstr("partition 0 of job j1 needs 100 bytes elsewhere: c has 99 bytes free, b "
                        "has 20 bytes free; start another server"));
}

TEST(NextMoveTest, RemainsOfAnEarlierMoveOrGenerationAreKeptClearOf) {
  v1::JobRecord record = TestRecord();
  v1::MoveRecord& remains = *record.add_moves();
  remains.set_partition(0);
  remains.set_from_server("a");
  remains.set_to_server("c");
  remains.set_state(v1::MoveRecord::GIVEN_UP);
  const ClusterCapacity capacity = {.servers = {Room("b", 900), Room("c", 900), Room("d", 900)}};
  auto move = NextMove(record, capacity, {"a"}, {});
  ASSERT_TRUE(move.ok() && move->has_value());
  EXPECT_EQ((*move)->to, "d");
  move = NextMove(record, capacity, {"a"}, {"d"});
  ASSERT_TRUE(move.ok() && move->has_value());
  EXPECT_EQ((*move)->to, "b");
}

TEST(NextMoveTest, RebalancingEndsWhenCountsDifferByOneAtMost) {
  v1::JobRecord record = TestRecord();
  record.set_rebalance(true);
  const ClusterCapacity capacity = {.servers = {Room("a", 900), Room("b", 900), Room("c", 900)}};
  int moves = 0;
  while (true) {
    const auto move = NextMove(record, capacity, {}, {});
    ASSERT_TRUE(move.ok());
    if (!move->has_value()) break;
    ASSERT_LT(++moves, 10);
    MovePartition((*move)->partition, {(*move)->to, 3, "c:1"}, 100, record);
  }
  EXPECT_EQ(moves, 2);
  for (const char* server : {"a", "b", "c"}) EXPECT_EQ(CountPartitions(server, record), 2u);
}

TEST(NextMoveTest, AJobKeepsToTheServersThatItAsksFor) {
  v1::JobRecord record = TestRecord();
  record.set_rebalance(true);
  record.mutable_spec()->set_servers(2);
  const auto move =
      NextMove(record, {.servers = {Room("a", 900), Room("b", 900), Room("c", 900)}}, {}, {});
  ASSERT_TRUE(move.ok());
  EXPECT_FALSE(move->has_value());
}

TEST(MovePartitionTest, TermAndVersionGrowAndTheLastOneTakesTheServerAlong) {
  v1::JobRecord record = TestRecord();
  const uint64_t term = record.term(), version = record.shard_map_version();
  for (uint32_t partition : {0, 2, 4}) {
    MovePartition(partition, {"b", 2, "b:1"}, 100, record);
  }
  EXPECT_EQ(record.term(), term + 3);
  EXPECT_EQ(record.shard_map_version(), version + 3);
  EXPECT_EQ(record.partitions(4).replicas(0).term(), term + 3);
  ASSERT_EQ(record.servers_size(), 1);
  EXPECT_EQ(record.servers(0).server_id(), "b");
  EXPECT_EQ(record.servers(0).reserved_bytes(), 600u);
  ASSERT_EQ(record.former_servers_size(), 1);
  EXPECT_EQ(record.former_servers(0), "a");
}

}  // namespace
}  // namespace muster
