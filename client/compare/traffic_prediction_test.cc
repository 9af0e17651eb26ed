#include "client/compare/traffic_prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/partition/dense_layout.h"
#include "common/partition/schema.h"
#include "proto/schema.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// Two units of 1,000 and 10 elements, in blocks of at most 1,600 bytes, on 3 partitions.
v1::TablesSchema Schema() {
  v1::TablesSchema schema;
  std::vector<TensorSpec> tensors(2);
  tensors[0].name = "w";
  tensors[0].shape = {100, 10};
  tensors[1].name = "b";
  tensors[1].shape = {10};
  tensors[1].unit = 1;
  SetTables(tensors, {}, schema);
  schema.set_partitions(3);
  schema.set_block_bytes(1600);
  schema.mutable_optimizer()->set_name("sgd");
  schema.mutable_optimizer()->set_learning_rate(0.1f);
  schema.set_total_steps(10);
  return schema;
}

v1::PartitionPlacement Placed(uint32_t partition, const std::string& server) {
  v1::PartitionPlacement placement;
  placement.set_partition(partition);
  v1::Replica& replica = *placement.add_replicas();
  replica.set_server_id(server);
  replica.set_role(v1::Replica::PRIMARY);
  return placement;
}

TEST(TrafficPredictionTest, EveryBlockGoesOnceEachWayPerWorker) {
  const v1::TablesSchema schema = Schema();
  const v1::PartitionPlacement a = Placed(0, "s0"), b = Placed(1, "s1"), c = Placed(2, "s0");
  const std::vector<const v1::PartitionPlacement*> map = {&a, &b, &c};
  const auto traffic = PredictServerTraffic(schema, map, 2, 4);
  ASSERT_TRUE(traffic.ok()) << traffic.status();
  EXPECT_EQ(traffic->worker_sent, 4040);
  EXPECT_EQ(traffic->worker_received, 4040);
  // Three blocks of equal size but for the last (336, 336, 328), one of 10; largest first to the
  // emptiest partition: 336, 336, and 328 with 10.
  ASSERT_EQ(traffic->server_sent.size(), 2u);
  EXPECT_EQ(traffic->server_sent.at("s0"), 2 * 4 * (336 + 338));
  EXPECT_EQ(traffic->server_sent.at("s1"), 2 * 4 * 336);
  const auto half = PredictServerTraffic(schema, map, 2, 2);
  EXPECT_EQ(half->worker_sent, 2020);
  EXPECT_EQ(half->server_sent.at("s1"), 2 * 2 * 336);
}

TEST(TrafficPredictionTest, AllReduceMovesTwiceTheShareOfTheOthers) {
  const auto two = PredictAllReduceTraffic(Schema(), 2, 4);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->worker_sent, 4040);
  const auto four = PredictAllReduceTraffic(Schema(), 4, 2);
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_EQ(four->worker_sent, 1.5 * 1010 * 2);
  EXPECT_EQ(four->worker_received, four->worker_sent);
  EXPECT_TRUE(four->server_sent.empty());
  EXPECT_EQ(PredictAllReduceTraffic(Schema(), 1, 4)->worker_sent, 0);
}

TEST(TrafficPredictionTest, AWrongSchemaIsRefused) {
  v1::TablesSchema schema = Schema();
  schema.set_partitions(0);
  EXPECT_FALSE(PredictAllReduceTraffic(schema, 2, 4).ok());
  EXPECT_FALSE(PredictServerTraffic(schema, {}, 2, 4).ok());
}

}  // namespace
}  // namespace muster
