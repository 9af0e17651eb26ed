#include "server/coordinator/cluster/shard_map.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

class ShardMapTest : public ::testing::Test {
 protected:
  ShardMapTest() {
    record_.set_job_id("j1");
    record_.set_generation(1);
    DealShards({{.identity = {"s0", 1, "a:1", 11}, .bytes = 20, .partitions = {0, 2}},
                {.identity = {"s1", 2, "b:1", 12}, .bytes = 10, .partitions = {1}}},
               record_);
  }

  const v1::Replica& Primary(int partition) const {
    return record_.partitions(partition).replicas(0);
  }

  v1::JobRecord record_;
};

TEST_F(ShardMapTest, DealsEveryPartitionToOneServer) {
  const v1::ShardMap map = ShardMapOf(record_);
  EXPECT_EQ(map.version(), 1);
  EXPECT_EQ(map.generation(), 1);
  ASSERT_EQ(map.partitions_size(), 3);
  for (int p = 0; p < 3; ++p) {
    EXPECT_EQ(map.partitions(p).partition(), p);
    ASSERT_EQ(map.partitions(p).replicas_size(), 1);
    EXPECT_EQ(map.partitions(p).replicas(0).role(), v1::Replica::PRIMARY);
    EXPECT_EQ(map.partitions(p).replicas(0).term(), 1);
  }
  EXPECT_EQ(Primary(0).server_id(), "s0");
  EXPECT_EQ(Primary(1).server_id(), "s1");
  EXPECT_EQ(Primary(2).server_id(), "s0");
  EXPECT_EQ(PartitionsOf("s0", record_), "0, 2");
}

TEST_F(ShardMapTest, AReturnedServerKeepsItsPartitionsUnderAHigherTerm) {
  MoveShards({"s0", 7, "c:9", 17}, record_);
  EXPECT_EQ(record_.shard_map_version(), 2);
  EXPECT_EQ(Primary(0).address(), "c:9");
  EXPECT_EQ(Primary(0).process_nonce(), 17) << "who has the old map is refused by the new process";
  EXPECT_EQ(Primary(0).term(), 2);
  EXPECT_EQ(Primary(2).term(), 2);
  EXPECT_EQ(Primary(1).address(), "b:1");
  EXPECT_EQ(Primary(1).process_nonce(), 12);
  EXPECT_EQ(Primary(1).term(), 1);
  EXPECT_EQ(record_.servers(0).incarnation(), 7);
  EXPECT_EQ(record_.servers(1).incarnation(), 2);
}

TEST_F(ShardMapTest, VersionAndTermsGrowAcrossPlacements) {
  MoveShards({"s1", 7, "c:9", 17}, record_);
  ClearShards(record_);
  EXPECT_EQ(record_.partitions_size(), 0);
  EXPECT_THAT(record_.former_servers(), ElementsAre("s0", "s1"));
  ClearShards(record_);
  EXPECT_THAT(record_.former_servers(), ElementsAre("s0", "s1"));
  DealShards({{.identity = {"s2", 3, "d:1", 13}, .partitions = {0, 1, 2}}}, record_);
  EXPECT_EQ(record_.shard_map_version(), 3);
  EXPECT_EQ(Primary(1).term(), 3);
}

}  // namespace
}  // namespace muster
