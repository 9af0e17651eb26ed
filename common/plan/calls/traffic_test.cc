#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/partition/dense_layout.h"
#include "common/partition/schema.h"
#include "common/plan/calls/step_traffic.h"
#include "common/plan/calls/traffic_schema_for_testing.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

v1::PartitionPlacement Placed(uint32_t partition, const std::string& server) {
  v1::PartitionPlacement placement;
  placement.set_partition(partition);
  v1::Replica& replica = *placement.add_replicas();
  replica.set_server_id(server);
  replica.set_role(v1::Replica::PRIMARY);
  return placement;
}

// Of two workers, with partitions 0 and 2 on s0, 1 on s1.
absl::StatusOr<PredictedTraffic> OnTwoServers(const v1::TablesSchema& schema, v1::JobSpec spec) {
  spec.set_workers(2);
  const v1::PartitionPlacement a = Placed(0, "s0"), b = Placed(1, "s1"), c = Placed(2, "s0");
  const std::vector<const v1::PartitionPlacement*> map = {&a, &b, &c};
  return PredictServerTraffic(schema, map, spec, kShared);
}

TEST(TrafficPredictionTest, EveryBlockGoesOnceEachWayPerWorker) {
  const v1::TablesSchema schema = Schema();
  v1::JobSpec spec;
  const auto traffic = OnTwoServers(schema, spec);
  ASSERT_TRUE(traffic.ok()) << traffic.status();
  EXPECT_THAT(traffic->workers, ElementsAre(WorkerTraffic{4040, 4040}, WorkerTraffic{4040, 4040}));
  // Three blocks of equal size but for the last (336, 336, 328), one of 10; largest first to the
  // emptiest partition: 336, 336, and 328 with 10.
  ASSERT_EQ(traffic->server_sent.size(), 2u);
  EXPECT_EQ(traffic->server_sent.at("s0"), 2 * 4 * (336 + 338));
  EXPECT_EQ(traffic->server_sent.at("s1"), 2 * 4 * 336);
  spec.mutable_update()->set_wire(v1::UpdateSpec::F16);
  const auto half = OnTwoServers(schema, spec);
  EXPECT_EQ(half->workers[1], (WorkerTraffic{2020, 2020}));
  EXPECT_EQ(half->server_sent.at("s1"), 2 * 2 * 336);
}

TEST(TrafficPredictionTest, WhatIsComputedWithInSixteenBitsIsPulledSo) {
  v1::TablesSchema schema = Schema();
  schema.mutable_tensors(0)->set_compute(v1::UpdateSpec::BF16);
  v1::JobSpec spec;
  const auto traffic = OnTwoServers(schema, spec);
  ASSERT_TRUE(traffic.ok()) << traffic.status();
  EXPECT_THAT(traffic->workers, Each(WorkerTraffic{4040, 2040}));
  EXPECT_EQ(traffic->server_sent.at("s0"), 2 * (2 * (336 + 328) + 4 * 10));
  // Devices round for themselves.
  spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  EXPECT_THAT(OnTwoServers(schema, spec)->workers, Each(WorkerTraffic{4040, 4040}));
  spec.clear_compute();
  // A wire of 16 bits carries the rest so, too.
  spec.mutable_update()->set_wire(v1::UpdateSpec::F16);
  EXPECT_THAT(OnTwoServers(schema, spec)->workers, Each(WorkerTraffic{2020, 2020}));
}

v1::JobSpec SpecOf(int workers, const v1::UpdateSpec& update) {
  v1::JobSpec spec;
  spec.set_workers(workers);
  *spec.mutable_update() = update;
  return spec;
}

// Returns the bytes that each of the job's workers sends; it receives as many.
std::vector<double> Sent(const v1::TablesSchema& schema, const v1::JobSpec& spec,
                         AllReduceWay way) {
  const auto traffic = PredictAllReduceTraffic(schema, spec, way);
  EXPECT_TRUE(traffic.ok()) << traffic.status();
  if (!traffic.ok()) return {};
  EXPECT_TRUE(traffic->server_sent.empty());
  std::vector<double> sent;
  for (const WorkerTraffic& worker : traffic->workers) {
    EXPECT_EQ(worker.received, worker.sent);
    sent.push_back(worker.sent);
  }
  return sent;
}

// Does the same for `workers` workers. Without `update`, the gradient is one bucket.
std::vector<double> Sent(const v1::TablesSchema& schema, int workers, AllReduceWay way,
                         const v1::UpdateSpec& update = {}) {
  v1::JobSpec spec = SpecOf(workers, update);
  if (way == AllReduceWay::kDevices) spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  return Sent(schema, spec, way);
}

constexpr AllReduceWay kTcp = AllReduceWay::kTcp;

TEST(TrafficPredictionTest, ALargeBucketMovesTwiceTheShareOfTheOthers) {
  // 160,000 bytes.
  const v1::TablesSchema schema = Schema(3999);
  EXPECT_THAT(Sent(schema, 1, kShared), ElementsAre(0));
  EXPECT_THAT(Sent(schema, 2, kShared), Each(160000));
  EXPECT_THAT(Sent(schema, 4, kShared), AllOf(SizeIs(4), Each(240000)));
  EXPECT_THAT(Sent(schema, 4, kTcp), Each(240000));
  // The first rank's part is an element longer, and goes to one more rank than it came from.
  EXPECT_THAT(Sent(schema, 3, kShared), ElementsAre(213336, 213332, 213332));
  v1::UpdateSpec half;
  half.set_wire(v1::UpdateSpec::BF16);
  EXPECT_THAT(Sent(schema, 4, kShared, half), Each(120000));
}

TEST(TrafficPredictionTest, ASmallBucketGoesToAllAtOnce) {
  const v1::TablesSchema schema = Schema();
  for (const AllReduceWay way : {kShared, kTcp}) {
    EXPECT_THAT(Sent(schema, 2, way), Each(4040));
    EXPECT_THAT(Sent(schema, 3, way), Each(2 * 4040));
    EXPECT_THAT(Sent(schema, 4, way), Each(3 * 4040));
  }
}

TEST(TrafficPredictionTest, OnDevicesEachTensorIsPadded) {
  // 1,000 and 10 elements are 1,024 and 64 there; however small, they go the long way.
  EXPECT_THAT(Sent(Schema(), 4, AllReduceWay::kDevices), Each(4 * 2 * 3 * 1088 / 4));
  // 640 and 64: two of three ranks own 235, one 234.
  EXPECT_THAT(Sent(Schema(64), 3, AllReduceWay::kDevices),
              ElementsAre(4 * (704 + 235), 4 * (704 + 235), 4 * (704 + 234)));
}

TEST(TrafficPredictionTest, BetweenSocketsPairsExchangeWhatIsNeitherSmallNorLarge) {
  // 40,000 bytes.
  const v1::TablesSchema schema = Schema(999);
  EXPECT_THAT(Sent(schema, 4, kTcp), Each(2 * 40000));
  EXPECT_THAT(Sent(schema, 4, kShared), Each(60000));
  // Sums in pairs are not in rank order, and bf16 would be rounded on the way.
  v1::UpdateSpec update;
  update.set_deterministic(true);
  EXPECT_THAT(Sent(schema, 4, kTcp, update), Each(60000));
  update.set_deterministic(false);
  update.set_wire(v1::UpdateSpec::BF16);
  EXPECT_THAT(Sent(schema, 4, kTcp, update), Each(30000));
}

TEST(TrafficPredictionTest, EachBucketGoesItsOwnWay) {
  const v1::TablesSchema schema = Schema(3999);
  v1::UpdateSpec update;
  update.set_first_bucket_bytes(16000);
  // The last unit's 10 elements to all at once; 39,990 by parts, of which two ranks own one more.
  EXPECT_THAT(
      Sent(schema, 4, kShared, update),
      ElementsAre(3 * 40 + 4 * 59986, 3 * 40 + 4 * 59986, 3 * 40 + 4 * 59984, 3 * 40 + 4 * 59984));
  update.set_bucket_bytes(16000);
  EXPECT_THAT(Sent(schema, 4, kShared, update), Each(3 * 160000));
}

TEST(TrafficPredictionTest, TheMeanIsThatOfAllWorkers) {
  EXPECT_EQ(MeanOf({{1, 10}, {2, 20}, {6, 60}}), (WorkerTraffic{3, 30}));
  EXPECT_EQ(MeanOf({}), WorkerTraffic());
}

TEST(TrafficPredictionTest, TheMeanNeedsNoSchedules) {
  v1::UpdateSpec deterministic, half, small;
  deterministic.set_deterministic(true);
  half.set_wire(v1::UpdateSpec::BF16);
  small.set_first_bucket_bytes(16000);
  for (const int64_t rows : {1, 100, 999, 3999, 300000}) {
    const v1::TablesSchema schema = Schema(rows);
    for (const v1::UpdateSpec& update : {v1::UpdateSpec(), deterministic, half, small}) {
      for (const AllReduceWay way : {kShared, kTcp, AllReduceWay::kDevices}) {
        for (const int workers : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 21}) {
          SCOPED_TRACE(testing::Message()
                       << rows << " rows, " << workers << " workers, way " << static_cast<int>(way)
                       << " " << update.ShortDebugString());
          const v1::JobSpec spec = SpecOf(workers, update);
          const auto all = PredictAllReduceTraffic(schema, spec, way);
          const auto mean = PredictMeanTraffic(schema, spec, CallRoad::kAllReduce, way);
          ASSERT_TRUE(mean.ok()) << mean.status();
          EXPECT_DOUBLE_EQ(mean->front().data.sent, MeanOf(all->workers).sent);
          EXPECT_DOUBLE_EQ(mean->front().data.received, MeanOf(all->workers).received);
        }
      }
    }
  }
}

// Each unit has 4,096 elements, which divide into equal slices for up to 64 ranks.
constexpr double kUnit = 4096;
v1::TablesSchema Units(int units, DType compute = DType::kF32) {
  v1::TablesSchema schema = Schema();
  std::vector<TensorSpec> tensors(units);
  for (int unit = 0; unit < units; ++unit) {
    tensors[unit].name = std::string(1, static_cast<char>('a' + unit));
    tensors[unit].shape = {64, 64};
    tensors[unit].unit = unit;
    tensors[unit].compute = compute;
  }
  SetTables(tensors, {}, schema);
  return schema;
}

v1::JobSpec Sharded(uint32_t stage, int workers, uint32_t micro_batches = 1, uint32_t shard = 0) {
  v1::JobSpec spec = SpecOf(workers, {});
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.set_micro_batches(micro_batches);
  v1::ZeroSpec& zero = *spec.mutable_parallelism()->mutable_zero();
  zero.set_stage(stage);
  zero.set_shard(shard);
  return spec;
}

// The table of docs/parallelism/zero.md, for P parameters, whose gradients travel in 4 bytes: a
// rank sends (S-1)/S P (4 + weight) under stage 1, (S-1)/S P (4 m + weight) under 2, and at most
// (S-1)/S P m (4 + 2 weight) under 3.
TEST(ShardedTrafficTest, IsThatOfTheTable) {
  constexpr double P = 6 * kUnit;
  for (const auto& [compute, weight] : {std::pair{DType::kF32, 4.0}, {DType::kBf16, 2.0}}) {
    const v1::TablesSchema schema = Units(6, compute);
    for (const int S : {2, 4, 8}) {
      for (const int m : {1, 3}) {
        for (const AllReduceWay way : {kShared, kTcp}) {
          SCOPED_TRACE(testing::Message() << weight << " " << S << " ranks, " << m);
          const double share = (S - 1.0) / S;
          EXPECT_THAT(Sent(schema, Sharded(1, S, m), way),
                      AllOf(SizeIs(S), Each(share * P * (4 + weight))));
          EXPECT_THAT(Sent(schema, Sharded(2, S, m), way), Each(share * P * (4 * m + weight)));
          // Two of the six units stay in place at each turn.
          const double gathered = (6 + (2 * m - 1) * 4) * kUnit;
          EXPECT_THAT(Sent(schema, Sharded(3, S, m), way),
                      Each(share * (4 * m * P + weight * gathered)));
        }
      }
    }
  }
}

TEST(ShardedTrafficTest, OneWorkerSendsNothing) {
  for (const uint32_t stage : {0, 1, 2, 3}) {
    EXPECT_THAT(Sent(Units(3), Sharded(stage, 1), kShared), ElementsAre(0));
  }
}

TEST(ShardedTrafficTest, TheWireIsOfGradients) {
  v1::JobSpec spec = Sharded(2, 4, 3);
  spec.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  EXPECT_THAT(Sent(Units(6), spec, kShared), Each(0.75 * 6 * kUnit * (2 * 3 + 4)));
}

TEST(ShardedTrafficTest, ReplicasSumTheirSlices) {
  constexpr double P = 6 * kUnit;
  EXPECT_THAT(Sent(Units(6), Sharded(1, 4, 1, /*shard=*/2), kShared),
              AllOf(SizeIs(4), Each(P / 2 * (4 + 4) + P / 2 * 4)));
  // Replicas sum once a step, even where gradients are scattered more often. Slices of 8 KiB go to
  // all 3 others at once.
  EXPECT_THAT(Sent(Units(6), Sharded(2, 8, 3, /*shard=*/2), kShared),
              AllOf(SizeIs(8), Each(P / 2 * (3 * 4 + 4) + 3 * P / 2 * 4)));
  // Slices do not divide evenly by 3 replicas.
  EXPECT_THAT(Sent(Units(1), Sharded(1, 6, 1, /*shard=*/2), kTcp),
              AllOf(SizeIs(6), Each(kUnit / 2 * (4 + 4) + 2 * kUnit / 2 * 4)));
}

// One f32 slice a step, whatever the wire and the number of micro-batches.
TEST(ShardedTrafficTest, SumsOfSlicesGoToCopies) {
  for (const uint32_t stage : {1, 2, 3}) {
    v1::JobSpec spec = Sharded(stage, 4, 3);
    spec.mutable_update()->set_wire(v1::UpdateSpec::BF16);
    const double without = Sent(Units(6), spec, kShared)[0];
    spec.mutable_parallelism()->mutable_zero()->set_redundancy(1);
    EXPECT_THAT(Sent(Units(6), spec, kShared), Each(without + 6 * kUnit / 4 * 4));
  }
}

TEST(ShardedTrafficTest, SlicesArePadded) {
  // 999 x 10 elements make 79 cells of 128, so four slices of 20 cells; 10 elements make four
  // slices of 3.
  EXPECT_THAT(Sent(Schema(999), Sharded(1, 4), kShared), Each(3 * (20 * 128 + 3) * (4 + 4)));
}

TEST(ShardedTrafficTest, TheMeanIsThatOfAllWorkers) {
  for (const uint32_t stage : {1, 2, 3}) {
    for (const auto& [workers, shard] : {std::pair{2, 0}, {4, 0}, {4, 2}, {12, 4}, {12, 2}}) {
      for (const AllReduceWay way : {kShared, kTcp}) {
        SCOPED_TRACE(testing::Message() << stage << " " << workers << " by " << shard);
        const v1::JobSpec spec = Sharded(stage, workers, 2, shard);
        const v1::TablesSchema schema = Schema(300000);
        const auto all = PredictAllReduceTraffic(schema, spec, way);
        const auto mean = PredictMeanTraffic(schema, spec, CallRoad::kAllReduce, way);
        ASSERT_TRUE(mean.ok()) << mean.status();
        EXPECT_DOUBLE_EQ(mean->front().data.sent, MeanOf(all->workers).sent);
        EXPECT_DOUBLE_EQ(mean->front().data.received, MeanOf(all->workers).received);
        EXPECT_EQ(mean->front().tensor, WorkerTraffic());
      }
    }
  }
}

TEST(TrafficPredictionTest, AWrongSchemaIsRefused) {
  v1::TablesSchema schema = Schema();
  schema.set_partitions(0);
  for (const uint32_t stage : {0, 1}) {
    const v1::JobSpec spec = Sharded(stage, 2);
    EXPECT_FALSE(PredictAllReduceTraffic(schema, spec, kShared).ok());
    EXPECT_FALSE(PredictMeanTraffic(schema, spec, CallRoad::kAllReduce, kShared).ok());
  }
  EXPECT_FALSE(PredictServerTraffic(schema, {}, v1::JobSpec(), kShared).ok());
}

}  // namespace
}  // namespace muster
