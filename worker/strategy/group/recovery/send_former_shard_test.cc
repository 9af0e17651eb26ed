// Checks that former ranks send every element and row of their shards to where it lies among new
// ranks.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "common/partition/dense_layout.h"
#include "common/tables/sparse_table.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/strategy/group/recovery/resharding.h"
#include "worker/strategy/group/sharded_job_for_testing.h"
#include "worker/strategy/row_keys_for_testing.h"

namespace muster {
namespace {

// Returns a value for an element of the flat space, in its weights (0) or in its optimizer state.
float ValueOf(uint64_t flat, size_t array) { return static_cast<float>(flat * 8 + array); }

// Calls `visit` with each float of a shard, and its element and array.
void ForEachFloat(ShardState& shard, const std::function<void(float&, uint64_t, size_t)>& visit) {
  const ShardState::State state = shard.state();
  const size_t arrays = state.optimizer_state.size() / state.weights.size();
  for (const ShardLayout::OwnedBlock& owned : shard.owned_blocks()) {
    const size_t elements = owned.block.elements();
    for (size_t i = 0; i < elements; ++i) {
      visit(state.weights[owned.slice_begin + i], owned.block.begin + i, 0);
      for (size_t array = 0; array < arrays; ++array) {
        const size_t at = owned.slice_begin * arrays + array * elements + i;
        visit(state.optimizer_state[at], owned.block.begin + i, 1 + array);
      }
    }
  }
}

// Any rank may send any shard, also one of another tensor rank.
class SendFormerShardTest : public ::testing::TestWithParam<int> {
 protected:
  static int tensor() { return GetParam(); }

  // Fills a shard with values that say where they belong.
  static void Mark(ShardState& shard) {
    const auto first = static_cast<float>(shard.shard().at(Axis::kTensor)) / 2;
    ForEachFloat(shard, [first](float& value, uint64_t flat, size_t array) {
      value = ValueOf(flat, array) + first;
    });
    for (uint64_t& steps : shard.state().steps) steps = 7 + shard.shard().at(Axis::kTensor);
  }
  static void ExpectMarked(ShardState& shard) {
    const int tensor_rank = shard.shard().at(Axis::kTensor);
    uint64_t floats = 0, wrong = 0;
    ForEachFloat(shard, [&](float& value, uint64_t flat, size_t array) {
      ++floats;
      wrong += value != ValueOf(flat, array) + static_cast<float>(tensor_rank) / 2;
    });
    EXPECT_GT(floats, 0u);
    EXPECT_EQ(wrong, 0u);
    for (const uint64_t steps : shard.state().steps) EXPECT_EQ(steps, 7u + tensor_rank);
  }
};

TEST_P(SendFormerShardTest, EveryFloatComesToItsNewPlace) {
  const v1::TablesSchema schema = Schema({.tensor = tensor()});
  std::vector<DenseLayout> layouts;
  for (int rank = 0; rank < tensor(); ++rank) {
    const MeshPosition whole(Mesh({.tensor = tensor()}), rank);
    layouts.push_back(ShardState::Create(schema, whole).value()->layout());
  }
  const TempFolder folder;
  for (const int former : {1, 2, 3, 5}) {
    for (const int shards : {1, 2, 3, 4}) {
      const Mesh before({.shard = former, .tensor = tensor()});
      const Mesh now({.shard = shards, .tensor = tensor()});
      // A few elements a call, some blocks, and all.
      for (const size_t call_bytes : {size_t{100}, size_t{5000}, size_t{1} << 26}) {
        SCOPED_TRACE(absl::StrCat(former, " to ", shards, " in calls of ", call_bytes));
        TestRanks group(now.world_size());
        group.Run([&](std::unique_ptr<Communicator> world) {
          const int rank = world->rank();
          absl::optional<std::string> offload_folder;
          if (rank == 1) offload_folder = folder.path();
          const auto mine =
              ShardState::Create(schema, MeshPosition(now, rank), offload_folder).value();
          for (int coordinate = 0; coordinate < before.world_size(); ++coordinate) {
            const MeshPosition shard(before, coordinate);
            const int root = (coordinate + 1) % world->size();
            std::unique_ptr<ShardState> source;
            if (rank == root) {
              source = ShardState::Create(schema, shard).value();
              Mark(*source);
            }
            ASSERT_EQ(SendFormerShard(*world, root, {shard, layouts[shard.at(Axis::kTensor)]},
                                      source.get(), {.call_bytes = call_bytes}, *mine),
                      absl::OkStatus());
          }
          ExpectMarked(*mine);
        });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TensorRanks, SendFormerShardTest, ::testing::Values(1, 2));

// Returns a value for a float of a row.
float ValueOf(uint64_t key, size_t table, size_t at) {
  return static_cast<float>(key * 100 + table * 10 + at);
}

// Fills a shard with its rows of the keys below 100.
void FillRows(ShardState& shard) {
  const absl::Span<SparseTable> tables = shard.state().rows;
  for (size_t table = 0; table < tables.size(); ++table) {
    for (uint64_t key = 0; key < 100; ++key) {
      if (shard.OwnerOf(key) != static_cast<uint32_t>(shard.shard().at(Axis::kShard))) continue;
      SparseTable::Row& row = tables[table].Load(key);
      row.steps = key + 1;
      row.last_use = key + 2;
      for (size_t i = 0; i < tables[table].width(); ++i) row.values()[i] = ValueOf(key, table, i);
    }
  }
}

TEST(SendFormerRowsTest, EveryRowComesToItsNewOwner) {
  const v1::TablesSchema schema = Schema({.has_rows = true});
  for (const int former : {1, 2, 3, 5}) {
    for (const int ranks : {1, 2, 3, 4}) {
      // A row a call, some, and all.
      for (const size_t call_bytes : {size_t{1}, size_t{1000}, size_t{1} << 26}) {
        SCOPED_TRACE(absl::StrCat(former, " to ", ranks, " in calls of ", call_bytes));
        TestRanks group(ranks);
        group.Run([&](std::unique_ptr<Communicator> world) {
          const int rank = world->rank();
          const auto mine = ShardState::Create(schema, {Mesh({.shard = ranks}), rank}).value();
          const auto expected = ShardState::Create(schema, {Mesh({.shard = ranks}), rank}).value();
          FillRows(*expected);
          // The last rank has the first former shard, the one before it the next, and so on.
          std::vector<std::unique_ptr<ShardState>> had;
          std::vector<ShardState*> sent;
          for (int index = ranks - 1 - rank; index < former; index += ranks) {
            had.push_back(ShardState::Create(schema, {Mesh({.shard = former}), index}).value());
            FillRows(*had.back());
            sent.push_back(had.back().get());
          }
          ASSERT_EQ(SendFormerRows(*world, sent, {.call_bytes = call_bytes}, *mine),
                    absl::OkStatus());
          for (int table = 0; table < schema.sparse_size(); ++table) {
            const std::vector<const SparseTable::Row*> rows = mine->state().rows[table].Sorted();
            ASSERT_EQ(KeysOf(*mine, table), KeysOf(*expected, table));
            EXPECT_GT(rows.size(), 0u);
            for (const SparseTable::Row* row : rows) {
              EXPECT_EQ(row->steps, row->key + 1);
              EXPECT_EQ(row->last_use, row->key + 2);
              for (size_t i = 0; i < mine->state().rows[table].width(); ++i) {
                EXPECT_EQ(row->values()[i], ValueOf(row->key, table, i));
              }
            }
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace muster
