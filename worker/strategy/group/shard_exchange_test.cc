// Tests the way of weights and gradients between ranks by itself, whatever steps them.
#include "worker/strategy/group/shard_exchange.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/checkpoint/memory_storage.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/strategy/group/host_shard.h"
#include "worker/strategy/group/recovery/kept_shard.h"
#include "worker/strategy/group/sharded_job_for_testing.h"

namespace muster {
namespace {

constexpr int kExchangeRanks = 3;
constexpr int kExchangeUnits = 4;

// One rank with its shard in the host's memory.
struct ExchangingRank {
  ExchangingRank(uint32_t stage, std::unique_ptr<Communicator> communicator) {
    const v1::TablesSchema schema = Schema({.stage = stage, .ranks = kExchangeRanks});
    const Mesh mesh({.shard = stage == 0 ? 1 : kExchangeRanks});
    const MeshPosition shard = {mesh, stage == 0 ? 0 : communicator->rank()};
    kept =
        KeptShard::Create(v1::TaskOrder(), schema, {.storage = &storage, .shard = shard}).value();
    groups = RankGroups::Create(std::move(communicator), shard).value();
    EXPECT_EQ(kept->Fill(groups->world(), absl::nullopt, groups->Others(kCopyAxes)),
              absl::OkStatus());
    place = std::make_unique<HostShard>(*kept, BucketPlanOptions{.bucket_bytes = 200},
                                        HostShard::Norms::kNotNeeded);
    ShardExchangeOptions options;
    options.holding = HoldingOfStage(stage);
    options.plan = place->PlanBuckets(state().layout(), state().tables().tensors).value();
    exchange = ShardExchange::Create(*groups, *place, state(), options, clock, exposed).value();
  }

  ShardState& state() { return kept->state(); }

  // Runs a micro-batch whose gradients of a unit's tensors are all this rank's number and `more`.
  void RunMicroBatch(float more, SeriesPosition position) {
    for (int unit = 0; unit < kExchangeUnits; ++unit) {
      ASSERT_EQ(exchange->Acquire(unit, Direction::kForward), absl::OkStatus());
    }
    exchange->BeforeBackward(position);
    const std::vector<TensorSpec>& tensors = state().tables().tensors;
    for (int unit = kExchangeUnits - 1; unit >= 0; --unit) {
      ASSERT_EQ(exchange->Acquire(unit, Direction::kBackward), absl::OkStatus());
      for (size_t t = 0; t < tensors.size(); ++t) {
        // The tied head adds nothing.
        if (static_cast<int>(tensors[t].unit) != unit || !tensors[t].tied_to.empty()) continue;
        const bool adds = exchange->GradientStore() == Accumulation::kAdd;
        for (float& gradient : exchange->gradients()[t]) {
          gradient = (adds ? gradient : 0) + static_cast<float>(groups->world().rank()) + more;
        }
      }
      ASSERT_EQ(exchange->GradientReady(unit), absl::OkStatus());
    }
  }

  MemoryStorage storage;
  const RealClock clock;
  double exposed = 0;
  std::unique_ptr<KeptShard> kept;
  std::unique_ptr<RankGroups> groups;
  std::unique_ptr<HostShard> place;
  std::unique_ptr<ShardExchange> exchange;
};

class ShardExchangeTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ShardExchangeTest, SumsOverRanksAndMicroBatches) {
  TestRanks ranks(kExchangeRanks);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    ExchangingRank rank(GetParam(), std::move(communicator));
    rank.exchange->GatherAll();
    CollectiveTraffic counted;
    for (const float more : {0.5f, 2.0f}) {
      ASSERT_EQ(rank.exchange->BeginStep(counted), absl::OkStatus());
      rank.RunMicroBatch(more, SeriesPosition::kMoreFollow);
      rank.RunMicroBatch(more, SeriesPosition::kLast);
      ASSERT_EQ(rank.exchange->Finish(), absl::OkStatus());
      for (const absl::Span<float> tensor : rank.exchange->tensor_sums()) {
        for (const float sum : tensor) ASSERT_EQ(sum, 2 * (0 + 1 + 2 + 3 * more));
      }
    }
  });
}

TEST_P(ShardExchangeTest, EveryRankReadsWhatOthersHaveStepped) {
  TestRanks ranks(kExchangeRanks);
  ranks.Run([](std::unique_ptr<Communicator> communicator) {
    ExchangingRank rank(GetParam(), std::move(communicator));
    rank.exchange->GatherAll();
    CollectiveTraffic counted;
    ASSERT_EQ(rank.exchange->BeginStep(counted), absl::OkStatus());
    rank.RunMicroBatch(0, SeriesPosition::kLast);
    ASSERT_EQ(rank.exchange->Finish(), absl::OkStatus());
    rank.exchange->Outdate();
    for (const absl::Span<const float> slice : rank.place->slices()) {
      for (const float& weight : slice) const_cast<float&>(weight) = 7;
    }
    rank.exchange->GatherAll();
    ASSERT_EQ(rank.exchange->BeginStep(counted), absl::OkStatus());
    for (int unit = 0; unit < kExchangeUnits; ++unit) {
      ASSERT_EQ(rank.exchange->Acquire(unit, Direction::kForward), absl::OkStatus());
      const std::vector<TensorSpec>& tensors = rank.state().tables().tensors;
      for (size_t t = 0; t < tensors.size(); ++t) {
        if (static_cast<int>(tensors[t].unit) != unit) continue;
        for (const float weight : rank.exchange->parameters().values[t]) ASSERT_EQ(weight, 7);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Stages, ShardExchangeTest, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace muster
