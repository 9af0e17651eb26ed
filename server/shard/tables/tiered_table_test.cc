#include "server/shard/tables/tiered_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"
#include "server/shard/storage/fake_store.h"
#include "server/shard/storage/rocksdb_store.h"
#include "server/shard/tables/stored_record.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using Steps = SparseTable::Steps;

constexpr uint64_t kEveryLsn = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kDim = 3;

class TieredTableTest : public testing::Test {
 protected:
  TieredTableTest() {
    v1::OptimizerSpec spec;
    spec.set_name("adam");
    spec.set_learning_rate(0.1);
    optimizer_ = *CreateOptimizer(spec, Granularity::kRow);
  }

  TieredTable::Options Tiered(ParameterStore& store, RowPolicy policy = {}) const {
    TieredTable::Options options;
    options.policy = policy;
    options.store = &store;
    options.job = "job";
    options.partition = 3;
    options.evicts = true;
    options.notes_dropped = true;
    return options;
  }
  TieredTable Make(TieredTable::Options options) const {
    return TieredTable(spec_, 7, *optimizer_, std::move(options));
  }
  TieredTable InMemory(RowPolicy policy = {}) const {
    TieredTable::Options options;
    options.policy = policy;
    options.notes_dropped = true;
    return Make(options);
  }

  // One step on each key, with gradients that `clock` and the key give.
  absl::Status Push(TieredTable& table, const std::vector<uint64_t>& keys, uint64_t clock,
                    uint64_t completed, uint64_t lsn = 0) const {
    const absl::StatusOr<TieredTable::Fetched> fetched = table.Fetch(keys);
    if (!fetched.ok()) return fetched.status();
    std::vector<float> gradients;
    for (uint64_t key : keys) {
      for (uint32_t i = 0; i < kDim; ++i) gradients.push_back(0.1f * key - 0.3f * clock + i);
    }
    table.Update(*fetched, gradients, {.learning_rate = 0.1f}, Steps::kPerRow, clock, completed,
                 lsn);
    return absl::OkStatus();
  }
  static std::vector<float> Pull(TieredTable& table, const std::vector<uint64_t>& keys,
                                 uint64_t completed) {
    std::vector<float> out(keys.size() * kDim);
    const absl::Status status = table.Pull(keys, completed, absl::MakeSpan(out));
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }
  static absl::Status EvictAll(TieredTable& table, uint64_t completed = 0) {
    return table.Evict(table.used_bytes(), kEveryLsn, completed);
  }

  const SparseTableSpec spec_{
      .name = "t",
      .dim = kDim,
      .initializer = {.kind = Initializer::Kind::kUniform, .scale = 1, .value = 0},
      .weight_decay = false};
  std::unique_ptr<const Optimizer> optimizer_;
  FakeStore store_;
};

TEST_F(TieredTableTest, ARowComesBackFromTheDiskWithTheSameBits) {
  TieredTable table = Make(Tiered(store_));
  TieredTable memory = InMemory();
  const std::vector<uint64_t> keys = {5, 9, 0, ~uint64_t{0}};
  for (uint64_t clock = 0; clock < 3; ++clock) {
    ASSERT_TRUE(Push(table, keys, clock, clock).ok());
    ASSERT_TRUE(Push(memory, keys, clock, clock).ok());
    ASSERT_TRUE(EvictAll(table).ok());
    ASSERT_EQ(table.memory().rows(), 0u);
    ASSERT_EQ(table.rows(), 4u);
    ASSERT_EQ(table.rows_on_disk(), 4u);
    // And rows that are nowhere do not come from the disk.
    ASSERT_EQ(Pull(table, {9, 7, 5, 9}, clock + 1), Pull(memory, {9, 7, 5, 9}, clock + 1));
    ASSERT_EQ(table.rows_on_disk(), 2u);
  }
  ASSERT_TRUE(table.Fetch(keys).ok());
  for (const SparseTable::Row* expected : memory.memory().Sorted()) {
    const SparseTable::Row& row = table.memory().At(table.memory().Find(expected->key));
    EXPECT_EQ(row.steps, expected->steps);
    EXPECT_EQ(row.last_use, expected->last_use);
    EXPECT_EQ(std::memcmp(row.values(), expected->values(), table.width() * sizeof(float)), 0);
  }
}

TEST_F(TieredTableTest, ReadsABatchWithOneMultiGetAndOnlyWhatMayBeThere) {
  TieredTable table = Make(Tiered(store_));
  ASSERT_TRUE(Push(table, {1, 2, 3}, 0, 0).ok());
  EXPECT_EQ(store_.multi_gets(), 0);
  ASSERT_TRUE(EvictAll(table).ok());
  ASSERT_TRUE(Push(table, {3, 2, 1, 4}, 1, 1).ok());
  EXPECT_EQ(store_.multi_gets(), 1);
  ASSERT_TRUE(Push(table, {1, 4, 3}, 2, 2).ok());
  EXPECT_EQ(store_.multi_gets(), 1);
}

TEST_F(TieredTableTest, WritesOnlyRowsThatChanged) {
  TieredTable table = Make(Tiered(store_));
  ASSERT_TRUE(Push(table, {1, 2, 3}, 0, 0).ok());
  ASSERT_TRUE(EvictAll(table).ok());
  EXPECT_EQ(store_.puts(), 3);
  Pull(table, {1, 2, 3}, 1);
  ASSERT_TRUE(Push(table, {2}, 1, 1).ok());
  ASSERT_TRUE(EvictAll(table).ok());
  EXPECT_EQ(store_.puts(), 4);
  EXPECT_EQ(table.rows(), 3u);
}

TEST_F(TieredTableTest, EvictsThoseFirstThatWereNotUsed) {
  TieredTable table = Make(Tiered(store_));
  std::vector<uint64_t> keys(100);
  for (uint64_t i = 0; i < 100; ++i) keys[i] = i;
  ASSERT_TRUE(Push(table, keys, 0, 0).ok());
  // Takes all marks of use away, and half of the rows.
  ASSERT_TRUE(table.Evict(table.used_bytes() / 2, kEveryLsn, 0).ok());
  std::vector<uint64_t> left;
  for (const SparseTable::Row* row : table.memory().Sorted()) left.push_back(row->key);
  ASSERT_EQ(left.size(), 50u);
  const std::vector<uint64_t> used(left.begin(), left.begin() + 20);
  ASSERT_TRUE(Push(table, used, 1, 1).ok());
  ASSERT_TRUE(table.Evict(table.used_bytes() / 2, kEveryLsn, 1).ok());
  EXPECT_EQ(table.memory().rows(), 25u);
  for (uint64_t key : used) EXPECT_NE(table.memory().Find(key), SparseTable::kMissing);
}

TEST_F(TieredTableTest, KeepsRowsOfTheLastRecord) {
  TieredTable table = Make(Tiered(store_));
  ASSERT_TRUE(Push(table, {1, 2}, 0, 0, /*lsn=*/10).ok());
  ASSERT_TRUE(Push(table, {2}, 1, 1, /*lsn=*/11).ok());
  ASSERT_TRUE(table.Evict(table.used_bytes(), /*before_lsn=*/11, 0).ok());
  EXPECT_EQ(table.memory().Find(1), SparseTable::kMissing);
  EXPECT_NE(table.memory().Find(2), SparseTable::kMissing);
}

TEST_F(TieredTableTest, AFullDiskLosesNothing) {
  TieredTable table = Make(Tiered(store_));
  TieredTable memory = InMemory();
  std::vector<uint64_t> keys(1000);
  for (uint64_t i = 0; i < 1000; ++i) keys[i] = i * i;
  ASSERT_TRUE(Push(memory, keys, 0, 0).ok());
  ASSERT_TRUE(Push(table, keys, 0, 0).ok());
  store_.set_fault([](FakeStore::Operation operation) {
    return operation == FakeStore::Operation::kWrite ? absl::ResourceExhaustedError("full")
                                                     : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(EvictAll(table)));
  EXPECT_EQ(table.memory().rows(), 1000u);
  EXPECT_EQ(table.rows_on_disk(), 0u);
  ASSERT_TRUE(Push(memory, keys, 1, 1).ok());
  ASSERT_TRUE(Push(table, keys, 1, 1).ok());
  store_.set_fault(nullptr);
  ASSERT_TRUE(EvictAll(table).ok());
  EXPECT_EQ(table.memory().rows(), 0u);
  EXPECT_EQ(Pull(table, keys, 2), Pull(memory, keys, 2));
}

TEST_F(TieredTableTest, ADiskThatCannotBeReadAppliesNothing) {
  TieredTable table = Make(Tiered(store_));
  TieredTable memory = InMemory();
  ASSERT_TRUE(Push(table, {1, 2}, 0, 0).ok());
  ASSERT_TRUE(Push(memory, {1, 2}, 0, 0).ok());
  ASSERT_TRUE(table.Evict(table.used_bytes() / 2, kEveryLsn, 0).ok());
  store_.set_fault([](FakeStore::Operation) { return absl::DataLossError("bad block"); });
  EXPECT_TRUE(absl::IsDataLoss(Push(table, {1, 2}, 1, 1)));
  std::vector<float> out(6);
  EXPECT_TRUE(absl::IsDataLoss(table.Pull({1, 2}, 1, absl::MakeSpan(out))));
  store_.set_fault(nullptr);
  EXPECT_EQ(Pull(table, {1, 2}, 1), Pull(memory, {1, 2}, 1));
}

TEST_F(TieredTableTest, RowsOfAnotherLengthAreDataLoss) {
  TieredTable table = Make(Tiered(store_));
  ASSERT_TRUE(Push(table, {1}, 0, 0).ok());
  ASSERT_TRUE(EvictAll(table).ok());
  StoreBatch batch("job");
  const std::vector<std::byte> bytes(31);
  batch.Put(1, 3, 1, bytes);
  ASSERT_TRUE(store_.Write(batch, ParameterStore::Durability::kBuffered).ok());
  const absl::Status status = Push(table, {1}, 1, 1);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("key 1 of table 1, partition 3 of job job"));
}

TEST_F(TieredTableTest, AKeyIsLetInWithTheNthClockThatPushesIt) {
  for (const bool evicts : {false, true}) {
    TieredTable table =
        evicts ? Make(Tiered(store_, {.admit_after = 3})) : InMemory({.admit_after = 3});
    const std::vector<float> initial = Pull(table, {5}, 0);
    // Two pushes of one clock count once.
    for (uint64_t clock : {0, 4, 4}) {
      ASSERT_TRUE(Push(table, {5}, clock, clock).ok());
      EXPECT_EQ(Pull(table, {5}, clock + 1), initial);
      if (evicts) {
        ASSERT_TRUE(EvictAll(table).ok());
      }
    }
    EXPECT_EQ(table.memory().rows(), 0u);
    ASSERT_TRUE(Push(table, {5}, 6, 6).ok());
    EXPECT_NE(Pull(table, {5}, 7), initial);
    const SparseTable::Row& row = table.memory().At(table.memory().Find(5));
    EXPECT_EQ(row.steps, 1u);
    EXPECT_THAT(table.CountsInMemory(), IsEmpty());
    EXPECT_EQ(table.rows(), 1u);
  }
}

TEST_F(TieredTableTest, CountsComeFromACheckpoint) {
  TieredTable table = InMemory({.admit_after = 2});
  table.LoadCount({.key = 5, .clocks = 1, .last_use = 8});
  ASSERT_EQ(table.CountsInMemory().size(), 1u);
  EXPECT_EQ(table.CountsInMemory()[0].last_use, 8u);
  ASSERT_TRUE(Push(table, {5}, 9, 9).ok());
  EXPECT_EQ(table.memory().rows(), 1u);
}

TEST_F(TieredTableTest, ARowExpiresAfterClocksThatDoNotPushIt) {
  for (const bool evicts : {false, true}) {
    const RowPolicy policy{.expire_after = 2};
    TieredTable table = evicts ? Make(Tiered(store_, policy)) : InMemory(policy);
    const std::vector<float> initial = Pull(table, {5}, 0);
    ASSERT_TRUE(Push(table, {5}, 3, 3).ok());
    const std::vector<float> trained = Pull(table, {5}, 4);
    EXPECT_NE(trained, initial);
    if (evicts) {
      ASSERT_TRUE(EvictAll(table).ok());
    }
    // Clocks 4 and 5 do not push it.
    EXPECT_EQ(Pull(table, {5}, 5), trained);
    EXPECT_EQ(Pull(table, {5}, 6), initial);
    // Still there for the clock before, and then gone.
    ASSERT_TRUE(table.DropExpired(6).ok());
    EXPECT_EQ(table.rows(), 1u);
    if (evicts) {
      ASSERT_TRUE(EvictAll(table).ok());
    }
    ASSERT_TRUE(table.DropExpired(7).ok());
    EXPECT_EQ(table.rows(), 0u);
    EXPECT_THAT(table.TakeDropped(), Optional(ElementsAre(5)));
    EXPECT_THAT(table.TakeDropped(), Optional(IsEmpty()));
    // A new one has no memory of it.
    ASSERT_TRUE(Push(table, {5}, 3, 8).ok());
    EXPECT_EQ(Pull(table, {5}, 4), trained);
  }
}

TEST_F(TieredTableTest, RowsWithEnoughUpdatesStay) {
  TieredTable table = Make(Tiered(store_, {.expire_after = 1, .keep_from_updates = 2}));
  ASSERT_TRUE(Push(table, {1, 2}, 0, 0).ok());
  ASSERT_TRUE(Push(table, {1}, 1, 1).ok());
  ASSERT_TRUE(EvictAll(table).ok());
  ASSERT_TRUE(table.DropExpired(50).ok());
  EXPECT_EQ(table.rows(), 1u);
  Pull(table, {1}, 50);
  EXPECT_NE(table.memory().Find(1), SparseTable::kMissing);
}

// What nobody asks for must not grow with every row that ever went.
TEST_F(TieredTableTest, TooManyDroppedKeysAreForgottenAndThatIsSaid) {
  TieredTable::Options options;
  options.policy.expire_after = 1;
  options.notes_dropped = true;
  options.most_dropped = 4;
  TieredTable table = Make(options);
  for (const size_t rows : {5, 4}) {
    std::vector<uint64_t> keys(rows);
    for (size_t i = 0; i < rows; ++i) keys[i] = i;
    ASSERT_TRUE(Push(table, keys, 0, 0).ok());
    ASSERT_TRUE(table.DropExpired(9).ok());
    ASSERT_EQ(table.rows(), 0u);
    const absl::optional<std::vector<uint64_t>> dropped = table.TakeDropped();
    EXPECT_EQ(dropped.has_value(), rows <= 4) << rows;
    if (dropped.has_value()) {
      EXPECT_EQ(dropped->size(), rows);
    }
  }
}

// Whatever is evicted and dropped when, every answer has the bits of a table that is all in memory
// and drops nothing before it must.
TEST_F(TieredTableTest, RandomHistoriesAreThoseOfATableInMemory) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "tiers";
  std::filesystem::remove_all(folder);
  auto rocksdb = RocksDbStore::Create({.data_dir = folder.string()});
  ASSERT_TRUE(rocksdb.ok()) << rocksdb.status();
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const RowPolicy policy{.admit_after = static_cast<uint32_t>(random() % 4),
                           .expire_after = random() % 2 == 0 ? 0 : 1 + random() % 6,
                           .keep_from_updates = static_cast<uint32_t>(random() % 4)};
    FakeStore fake;
    ParameterStore& store = seed % 4 == 0 ? static_cast<ParameterStore&>(**rocksdb) : fake;
    TieredTable::Options options = Tiered(store, policy);
    options.job = absl::StrCat("job-", seed);
    TieredTable table = Make(options);
    TieredTable memory = InMemory(policy);
    const bool logged = random() % 2 == 0;
    const uint64_t bound = random() % 3;
    uint64_t completed = 0;
    uint64_t lsn = 0;
    for (int step = 0; step < 300; ++step) {
      std::set<uint64_t> set;
      for (uint64_t count = random() % 12; count > 0; --count) set.insert(random() % 40);
      const std::vector<uint64_t> keys(set.begin(), set.end());
      const uint64_t clock = completed + random() % (bound + 1);
      switch (random() % 6) {
        case 0:
        case 1:
          ++lsn;
          ASSERT_TRUE(Push(table, keys, clock, completed, logged ? lsn : 0).ok());
          ASSERT_TRUE(Push(memory, keys, clock, completed, logged ? lsn : 0).ok());
          break;
        case 2:
          ASSERT_EQ(Pull(table, keys, completed), Pull(memory, keys, completed));
          break;
        case 3:
          ASSERT_TRUE(table.Evict(random() % (table.used_bytes() + 1), kEveryLsn, completed).ok());
          break;
        case 4:
          ++completed;
          ASSERT_TRUE(table.DropExpired(completed).ok());
          break;
        default:
          ASSERT_TRUE(table.StoreChanged().ok());
      }
      ASSERT_GE(table.rows(), table.rows_on_disk());
    }
    std::vector<uint64_t> all(40);
    for (uint64_t key = 0; key < 40; ++key) all[key] = key;
    ASSERT_EQ(Pull(table, all, completed), Pull(memory, all, completed));
    const SparseTable& rows = table.memory();
    for (const SparseTable::Row* expected : memory.memory().Sorted()) {
      if (policy.Expired(expected->last_use, expected->steps, completed)) continue;
      ASSERT_NE(rows.Find(expected->key), SparseTable::kMissing);
      const SparseTable::Row& row = rows.At(rows.Find(expected->key));
      ASSERT_EQ(row.steps, expected->steps);
      ASSERT_EQ(row.last_use, expected->last_use);
      ASSERT_EQ(row.lsn, expected->lsn);
      ASSERT_EQ(std::memcmp(row.values(), expected->values(), table.width() * sizeof(float)), 0);
    }
  }
}

// A crash at any moment, and the records since the last image once more: the bits of a table that
// never crashed.
TEST_F(TieredTableTest, ARecoveredTableGoesOnWithTheSameBits) {
  struct Record {
    std::vector<uint64_t> keys;
    uint64_t clock = 0;
    uint64_t completed = 0;
  };
  for (uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    FakeStore store;
    const RowPolicy policy{.admit_after = static_cast<uint32_t>(random() % 3),
                           .expire_after = random() % 2 == 0 ? 0 : 2 + random() % 4,
                           .keep_from_updates = static_cast<uint32_t>(random() % 4)};
    TieredTable::Options options = Tiered(store, policy);
    options.durability = ParameterStore::Durability::kBuffered;
    options.evicts = seed % 4 != 0;
    auto table = std::make_unique<TieredTable>(Make(options));
    TieredTable memory = InMemory(policy);
    std::vector<Record> log;
    uint64_t image = 0, completed = 0;
    for (int step = 0; step < 200; ++step) {
      std::set<uint64_t> set;
      for (uint64_t count = random() % 10; count > 0; --count) set.insert(random() % 30);
      const std::vector<uint64_t> keys(set.begin(), set.end());
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          log.push_back({keys, completed, completed});
          ASSERT_TRUE(Push(*table, keys, completed, completed, log.size()).ok());
          ASSERT_TRUE(Push(memory, keys, completed, completed, log.size()).ok());
          break;
        case 3:
          ++completed;
          ASSERT_TRUE(table->DropExpired(completed).ok());
          break;
        case 4:
          ASSERT_EQ(Pull(*table, keys, completed), Pull(memory, keys, completed));
          break;
        case 5:
          if (!options.evicts) break;
          ASSERT_TRUE(
              table->Evict(random() % (table->used_bytes() + 1), kEveryLsn, completed).ok());
          break;
        case 6: {
          // An image; one in four is cut short before its state is written.
          ASSERT_TRUE(table->StoreChanged().ok());
          if (random() % 4 == 0) break;
          StoreBatch batch("job");
          const std::vector<std::byte> state(1);
          batch.PutMeta(3, state);
          ASSERT_TRUE(store.Write(batch, ParameterStore::Durability::kSync).ok());
          image = log.size();
          break;
        }
        default: {
          if (random() % 3 != 0) break;
          store.Crash(random() % 2 == 0 ? FakeStore::Loss::kProcess : FakeStore::Loss::kMachine,
                      random());
          table = std::make_unique<TieredTable>(Make(options));
          ASSERT_TRUE(table->Recover().ok());
          for (uint64_t lsn = image + 1; lsn <= log.size(); ++lsn) {
            const Record& record = log[lsn - 1];
            ASSERT_TRUE(Push(*table, record.keys, record.clock, record.completed, lsn).ok());
            if (options.evicts && random() % 3 == 0) {
              ASSERT_TRUE(table->Evict(table->used_bytes() / 2, kEveryLsn, record.completed).ok());
            }
          }
        }
      }
    }
    std::vector<uint64_t> all(30);
    for (uint64_t key = 0; key < 30; ++key) all[key] = key;
    ASSERT_EQ(Pull(*table, all, completed), Pull(memory, all, completed));
  }
}

TEST_F(TieredTableTest, RecoversWhatAnEarlierVersionStored) {
  TieredTable::Options options = Tiered(store_);
  options.durability = ParameterStore::Durability::kBuffered;
  const std::vector<float> values(9, 2);
  const std::vector<std::byte> value =
      EncodeRecord({.lsn = 12, .steps = 3, .last_use = 4}, values, {});
  StoreBatch batch("job");
  for (uint64_t key = 0; key < 5; ++key) batch.Put(1, 3, key, value);
  ASSERT_TRUE(store_.Write(batch, ParameterStore::Durability::kSync).ok());
  for (const bool evicts : {true, false}) {
    options.evicts = evicts;
    TieredTable table = Make(options);
    const absl::StatusOr<uint64_t> highest = table.Recover();
    ASSERT_TRUE(highest.ok()) << highest.status();
    EXPECT_EQ(*highest, 12u);
    EXPECT_EQ(table.rows(), 5u);
    EXPECT_EQ(table.rows_on_disk(), evicts ? 5u : 0u);
    EXPECT_THAT(Pull(table, {3}, 0), ElementsAre(2, 2, 2));
  }
}

TEST_F(TieredTableTest, ClearedRowsAreAsIfTheyHadNeverBeen) {
  TieredTable first = Make(Tiered(store_));
  ASSERT_TRUE(Push(first, {1, 2}, 0, 0).ok());
  ASSERT_TRUE(EvictAll(first).ok());
  TieredTable second = Make(Tiered(store_));
  const std::vector<float> initial = Pull(second, {1}, 0);
  ASSERT_TRUE(second.Clear().ok());
  ASSERT_TRUE(Push(second, {2}, 0, 0).ok());
  ASSERT_TRUE(EvictAll(second).ok());
  EXPECT_EQ(Pull(second, {1}, 0), initial);
}

}  // namespace
}  // namespace muster
