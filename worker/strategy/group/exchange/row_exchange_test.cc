#include "worker/strategy/group/exchange/row_exchange.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/partition/sparse_placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/schema.pb.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/strategy/row_keys_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kPartitions = 5;
const std::vector<uint32_t> kDims = {2, 1, 3};

v1::TablesSchema RowsSchema() {
  v1::TablesSchema schema;
  schema.set_seed(3);
  schema.set_partitions(kPartitions);
  schema.set_block_bytes(256);
  schema.mutable_optimizer()->set_name("sgd");
  schema.mutable_optimizer()->set_learning_rate(0.5);
  for (size_t table = 0; table < kDims.size(); ++table) {
    v1::SparseTableSchema* sparse = schema.add_sparse();
    sparse->set_name(absl::StrCat("table", table));
    sparse->set_dim(kDims[table]);
    sparse->mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
    sparse->mutable_initializer()->set_scale(1);
  }
  return schema;
}

std::unique_ptr<ShardState> State(const MeshPosition& shard) {
  return ShardState::Create(RowsSchema(), shard).value();
}

// Returns keys that one shard owns.
std::vector<uint64_t> KeysOf(uint32_t owner, uint32_t shards, size_t count) {
  std::vector<uint64_t> keys;
  for (uint64_t key = 1; keys.size() < count; ++key) {
    if (SparseShard(key, kPartitions, shards) == owner) keys.push_back(key);
  }
  return keys;
}

SparseRows Rows(std::vector<uint64_t> keys, size_t table, float gradient) {
  SparseRows rows;
  rows.gradients.assign(keys.size() * kDims[table], gradient);
  rows.keys = std::move(keys);
  return rows;
}

std::vector<RowSum> NoRows() { return std::vector<RowSum>(kDims.begin(), kDims.end()); }

// Returns the rows of one rank's micro-batch. Every third rank is without examples; nobody touches
// the last table.
std::vector<SparseRows> RowsOfMicroBatch(int rank, int micro_batch, uint32_t shards) {
  std::vector<SparseRows> tables(kDims.size());
  if (rank % 3 == 2) return tables;
  // All ranks have key 7, and gradients whose sum depends on the order.
  const float gradients[] = {1e8f, -1e8f, 1, 3};
  std::vector<uint64_t> keys = {7};
  for (uint64_t i = 0; i < 20; ++i) keys.push_back(100 * (i % 4) * rank + 1000 * micro_batch + i);
  std::sort(keys.begin() + 1, keys.end());
  keys.erase(std::unique(keys.begin() + 1, keys.end()), keys.end());
  keys.erase(std::remove(keys.begin() + 1, keys.end(), 7), keys.end());
  tables[0] = Rows(std::move(keys), 0, gradients[(rank + micro_batch) % 4]);
  // All keys of the second table have one owner.
  const uint32_t owner = std::min(shards, kPartitions) - 1;
  tables[1] = Rows(KeysOf(owner, shards, 5), 1, 0.1f * static_cast<float>(rank + 1));
  return tables;
}

// Ranks, shards, and micro-batches.
class RowExchangeTest : public ::testing::TestWithParam<std::tuple<int, int, int>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  int shards() const { return std::get<1>(GetParam()); }
  int micro_batches() const { return std::get<2>(GetParam()); }

  // Runs `body` for each rank with its state and an exchange that has joined.
  template <typename Body>
  void ForEachRank(Body body) {
    TestRanks ranks(this->ranks());
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      const int rank = communicator->rank();
      const MeshPosition shard(Mesh({.shard = shards()}), rank % shards());
      const std::unique_ptr<ShardState> state = State(shard);
      auto groups = RankGroups::Create(std::move(communicator), shard).value();
      RowExchange exchange(*state, {});
      ASSERT_EQ(exchange.Join(*groups), absl::OkStatus());
      body(rank, *state, exchange);
    });
  }

  // Returns the sums as plain data parallelism has them, if each shard group sums for itself first.
  std::vector<RowSum> ExpectedSums() const {
    std::vector<RowSum> all = NoRows();
    for (int first = 0; first < ranks(); first += shards()) {
      std::vector<RowSum> group = NoRows();
      for (int rank = first; rank < first + shards(); ++rank) {
        std::vector<RowSum> own = NoRows();
        for (int m = 0; m < micro_batches(); ++m) {
          AddAll(RowsOfMicroBatch(rank, m, static_cast<uint32_t>(shards())), own);
        }
        for (size_t t = 0; t < kDims.size(); ++t) group[t].Add(own[t].keys(), own[t].sums());
      }
      for (size_t t = 0; t < kDims.size(); ++t) all[t].Add(group[t].keys(), group[t].sums());
    }
    return all;
  }

  static void AddAll(const std::vector<SparseRows>& tables, std::vector<RowSum>& sums) {
    for (size_t t = 0; t < tables.size(); ++t) sums[t].Add(tables[t].keys, tables[t].gradients);
  }
};

// Returns the keys and sums of one partition, in order.
std::vector<std::vector<float>> OfPartition(const RowSum& sum, uint32_t partition) {
  std::vector<std::vector<float>> rows;
  for (size_t i = 0; i < sum.keys().size(); ++i) {
    if (SparsePartition(sum.keys()[i], kPartitions) != partition) continue;
    std::vector<float> row = {static_cast<float>(sum.keys()[i])};
    row.insert(row.end(), sum.sums().begin() + i * sum.dim(),
               sum.sums().begin() + (i + 1) * sum.dim());
    rows.push_back(std::move(row));
  }
  return rows;
}

TEST_P(RowExchangeTest, OwnersHaveTheSumsOfPlainDataParallelism) {
  const std::vector<RowSum> expected = ExpectedSums();
  ForEachRank([&](int rank, const ShardState& state, RowExchange& exchange) {
    for (int step = 0; step < 2; ++step) {
      exchange.BeginStep();
      for (int m = 0; m < micro_batches(); ++m) {
        exchange.Add(RowsOfMicroBatch(rank, m, static_cast<uint32_t>(shards())));
      }
      ASSERT_EQ(exchange.SendToOwners(), absl::OkStatus());
      ASSERT_EQ(exchange.AddReplicas(), absl::OkStatus());
      for (size_t table = 0; table < kDims.size(); ++table) {
        for (uint32_t p = 0; p < kPartitions; ++p) {
          const bool owns = p % shards() == static_cast<uint32_t>(state.shard().at(Axis::kShard));
          const auto of_partition = OfPartition(exchange.sums()[table], p);
          // The order of keys decides the bits of norms.
          if (owns) EXPECT_EQ(of_partition, OfPartition(expected[table], p));
          if (!owns) EXPECT_THAT(of_partition, IsEmpty());
        }
      }
    }
    // A rank that fell behind may still need them.
    exchange.Leave();
    EXPECT_EQ(exchange.sums()[2].keys().size(), 0);
    EXPECT_EQ(exchange.sums().size(), kDims.size());
  });
}

// Takes one step with gradients of all kinds, then looks up.
TEST_P(RowExchangeTest, EveryRankReadsTheRowsOfAWholeState) {
  const std::vector<RowSum> sums = ExpectedSums();
  const std::unique_ptr<ShardState> whole = State({});
  whole->Apply({.examples = 1, .rows = sums}, 1);
  std::atomic<size_t> rows = 0;
  ForEachRank([&](int rank, ShardState& state, RowExchange& exchange) {
    exchange.BeginStep();
    for (int m = 0; m < micro_batches(); ++m) {
      exchange.Add(RowsOfMicroBatch(rank, m, static_cast<uint32_t>(shards())));
    }
    ASSERT_EQ(exchange.SendToOwners(), absl::OkStatus());
    ASSERT_EQ(exchange.AddReplicas(), absl::OkStatus());
    state.Apply({.examples = 1, .rows = exchange.sums()}, 1);
    for (size_t table = 0; table < kDims.size(); ++table) {
      if (rank < shards()) rows += KeysOf(state, table).size();
    }
    for (int other = 0; other < ranks(); ++other) {
      // The last ones were never pushed.
      std::vector<SparseRows> tables = RowsOfMicroBatch((rank + other) % ranks(), other, 1);
      tables[2].keys = {99, static_cast<uint64_t>(rank)};
      exchange.AskFor(tables);
      ASSERT_EQ(exchange.LookUp(absl::MakeSpan(tables)), absl::OkStatus());
      for (size_t table = 0; table < kDims.size(); ++table) {
        std::vector<float> expected(tables[table].keys.size() * kDims[table]);
        whole->LookUp(table, tables[table].keys, absl::MakeSpan(expected));
        EXPECT_EQ(tables[table].rows, expected);
      }
    }
  });
  // A shard group has each row once.
  size_t all = 0;
  for (const RowSum& sum : sums) all += sum.keys().size();
  EXPECT_EQ(rows, all);
}

// Returns the number of a rank's keys that other ranks of its group own, weighted by the bytes of a
// key, and of a row too if `with_rows`.
uint64_t BytesForOthers(const std::vector<std::vector<uint64_t>>& keys, const ShardState& state,
                        bool with_rows) {
  uint64_t bytes = 0;
  for (size_t table = 0; table < keys.size(); ++table) {
    for (const uint64_t key : keys[table]) {
      if (state.OwnerOf(key) == static_cast<uint32_t>(state.shard().at(Axis::kShard))) continue;
      bytes += sizeof(uint64_t) + (with_rows ? kDims[table] * sizeof(float) : 0);
    }
  }
  return bytes;
}

TEST_P(RowExchangeTest, MovesTheBytesThatItSays) {
  ForEachRank([&](int rank, const ShardState& state, RowExchange& exchange) {
    exchange.BeginStep();
    std::vector<RowSum> own = NoRows();
    const uint64_t numbers = sizeof(int64_t) * kDims.size() * (shards() - 1);
    uint64_t sent = 0, received = 0;
    for (int m = 0; m < micro_batches(); ++m) {
      std::vector<SparseRows> tables = RowsOfMicroBatch(rank, m, static_cast<uint32_t>(shards()));
      exchange.AskFor(tables);
      ASSERT_EQ(exchange.LookUp(absl::MakeSpan(tables)), absl::OkStatus());
      exchange.Add(tables);
      AddAll(tables, own);
      // Keys go out and rows come in; what others ask of this rank goes the other way.
      std::vector<std::vector<uint64_t>> keys;
      for (const SparseRows& rows : tables) keys.push_back(rows.keys);
      sent += numbers + BytesForOthers(keys, state, false);
      received += numbers + BytesForOthers(keys, state, true) - BytesForOthers(keys, state, false);
      const int first = rank / shards() * shards();
      for (int other = first; other < first + shards(); ++other) {
        if (other == rank) continue;
        const auto asked = RowsOfMicroBatch(other, m, static_cast<uint32_t>(shards()));
        for (size_t table = 0; table < kDims.size(); ++table) {
          for (const uint64_t key : asked[table].keys) {
            if (state.OwnerOf(key) != static_cast<uint32_t>(state.shard().at(Axis::kShard)))
              continue;
            sent += kDims[table] * sizeof(float);
            received += sizeof(uint64_t);
          }
        }
      }
    }
    EXPECT_EQ(exchange.step_traffic().sent, sent);
    EXPECT_EQ(exchange.step_traffic().received, received);
    ASSERT_EQ(exchange.SendToOwners(), absl::OkStatus());
    std::vector<std::vector<uint64_t>> keys;
    for (const RowSum& rows : own) keys.push_back(rows.keys());
    sent += numbers + BytesForOthers(keys, state, true);
    EXPECT_EQ(exchange.step_traffic().sent, sent);
    // The next step counts from nothing.
    ASSERT_EQ(exchange.AddReplicas(), absl::OkStatus());
    exchange.BeginStep();
    EXPECT_EQ(exchange.step_traffic().sent, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(EveryGroup, RowExchangeTest,
                         ::testing::Values(std::tuple(1, 1, 2), std::tuple(3, 1, 2),
                                           std::tuple(2, 2, 1), std::tuple(2, 2, 3),
                                           std::tuple(3, 3, 2), std::tuple(4, 4, 2),
                                           std::tuple(4, 2, 2), std::tuple(6, 2, 1),
                                           // Some ranks own no partition.
                                           std::tuple(8, 8, 2)),
                         [](const auto& info) {
                           return absl::StrCat("Ranks", std::get<0>(info.param), "Shards",
                                               std::get<1>(info.param), "MicroBatches",
                                               std::get<2>(info.param));
                         });

TEST(RowExchangeFailureTest, ALookUpThatIsGivenUpEndsOnAllRanks) {
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    const MeshPosition shard(Mesh({.shard = 2}), rank);
    const std::unique_ptr<ShardState> state = State(shard);
    const auto groups = RankGroups::Create(std::move(communicator), shard).value();
    RowExchange exchange(*state, {});
    ASSERT_EQ(exchange.Join(*groups), absl::OkStatus());
    std::vector<SparseRows> tables = RowsOfMicroBatch(rank, 0, 2);
    exchange.AskFor(tables);
    if (rank == 1) {
      exchange.Leave();
    } else {
      EXPECT_EQ(exchange.LookUp(absl::MakeSpan(tables)).code(), absl::StatusCode::kAborted);
    }
    ranks.AwaitAll();
  });
}

TEST(RowExchangeFailureTest, ADeadRankIsAnError) {
  for (const int shards : {1, 3}) {
    TestRanks ranks(3);
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      const int rank = communicator->rank();
      const MeshPosition shard(Mesh({.shard = shards}), rank % shards);
      const std::unique_ptr<ShardState> state = State(shard);
      const auto groups = RankGroups::Create(std::move(communicator), shard).value();
      RowExchange exchange(*state, {});
      ASSERT_EQ(exchange.Join(*groups), absl::OkStatus());
      EXPECT_EQ(exchange.recorder() != nullptr, shards > 1);
      ranks.AwaitAll();
      if (rank == 1) return ranks.Kill(1);
      exchange.BeginStep();
      exchange.Add(RowsOfMicroBatch(rank, 0, shards));
      absl::Status status = exchange.SendToOwners();
      if (status.ok()) status = exchange.AddReplicas();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    });
  }
}

}  // namespace
}  // namespace muster
