// What every ParameterStore must do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/byte_text.h"
#include "server/shard/storage/memory_store_for_testing.h"
#include "server/shard/storage/parameter_store.h"
#include "server/shard/storage/rocksdb_store.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using Durability = ParameterStore::Durability;
using Found = std::vector<std::pair<uint64_t, std::string>>;

struct StoreImplementation {
  std::string name;
  std::function<std::unique_ptr<ParameterStore>(const std::string& directory)> make;
};

class ParameterStoreContractTest : public ::testing::TestWithParam<StoreImplementation> {
 protected:
  void SetUp() override {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    for (char& c : name) c = c == '/' ? '_' : c;
    directory_ = absl::StrCat(::testing::TempDir(), "store_", name);
    std::filesystem::remove_all(directory_);
    store_ = GetParam().make(directory_);
  }

  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }

  void Put(const std::string& job, uint32_t table, uint32_t partition, uint64_t key,
           const std::string& value) {
    StoreBatch batch(job);
    batch.Put(table, partition, key, AsBytes(value));
    ASSERT_TRUE(store_->Write(batch, Durability::kBuffered).ok());
  }

  Found Scan(const std::string& job, uint32_t table, uint32_t partition) {
    Found found;
    const absl::Status status =
        store_->Scan(job, table, partition, [&found](uint64_t key, ParameterStore::Value value) {
          found.emplace_back(key, std::string(AsText(value)));
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    return found;
  }

  // Pairs of index and value.
  Found Get(const std::string& job, uint32_t table, uint32_t partition,
            const std::vector<uint64_t>& keys) {
    Found found;
    const absl::Status status = store_->MultiGet(
        job, table, partition, keys, [&found](size_t i, ParameterStore::Value value) {
          found.emplace_back(i, std::string(AsText(value)));
        });
    EXPECT_TRUE(status.ok()) << status;
    return found;
  }

  std::unique_ptr<ParameterStore> store_;
  std::string directory_;
};

TEST_P(ParameterStoreContractTest, IsEmptyAtFirst) {
  EXPECT_THAT(store_->Jobs().value(), IsEmpty());
  EXPECT_THAT(Scan("job", 0, 0), IsEmpty());
  EXPECT_THAT(Get("job", 0, 0, {1, 2}), IsEmpty());
  EXPECT_THAT(store_->Partitions("job").value(), IsEmpty());
  EXPECT_FALSE(store_->GetMeta("job", 0).value().has_value());
  EXPECT_TRUE(store_->DropJob("job").ok());
}

TEST_P(ParameterStoreContractTest, ReadsWhatWasWritten) {
  Put("job", 1, 2, 7, "seven");
  Put("job", 1, 2, 5, "");
  Put("job", 1, 2, 7, std::string("a\0b", 3));
  EXPECT_THAT(Get("job", 1, 2, {5, 6, 7}),
              ElementsAre(Pair(0, ""), Pair(2, std::string("a\0b", 3))));
  EXPECT_THAT(Get("job", 1, 2, {}), IsEmpty());
  EXPECT_THAT(Scan("job", 1, 2), ElementsAre(Pair(5, ""), Pair(7, std::string("a\0b", 3))));
}

TEST_P(ParameterStoreContractTest, JobsTablesAndPartitionsAreApart) {
  const uint64_t last = std::numeric_limits<uint64_t>::max();
  for (const std::string job : {"a", "a-", "aa"}) {
    for (const uint32_t table : {0u, 1u, 0xffffffffu}) {
      for (const uint32_t partition : {0u, 1u, 0xffffffffu}) {
        for (const uint64_t key : {uint64_t{0}, last}) {
          Put(job, table, partition, key, absl::StrCat(job, table, ".", partition, ".", key));
        }
      }
    }
  }
  EXPECT_THAT(store_->Jobs().value(), ElementsAre("a", "a-", "aa"));
  for (const std::string job : {"a", "a-", "aa"}) {
    for (const uint32_t table : {0u, 1u, 0xffffffffu}) {
      for (const uint32_t partition : {0u, 1u, 0xffffffffu}) {
        EXPECT_THAT(Scan(job, table, partition),
                    ElementsAre(Pair(0, absl::StrCat(job, table, ".", partition, ".", 0)),
                                Pair(last, absl::StrCat(job, table, ".", partition, ".", last))));
      }
    }
  }
}

TEST_P(ParameterStoreContractTest, ScansInOrderOfNumbers) {
  std::vector<uint64_t> keys = {0,
                                1,
                                255,
                                256,
                                65535,
                                65536,
                                uint64_t{1} << 32,
                                uint64_t{1} << 63,
                                std::numeric_limits<uint64_t>::max()};
  for (size_t i = 0; i < keys.size(); ++i) {
    Put("job", 0, 0, keys[(i * 4) % keys.size()], "x");
  }
  std::vector<uint64_t> scanned;
  for (const auto& [key, value] : Scan("job", 0, 0)) scanned.push_back(key);
  EXPECT_EQ(scanned, keys);
}

TEST_P(ParameterStoreContractTest, AScanEndsWithItsVisitorsError) {
  for (uint64_t key = 0; key < 5; ++key) Put("job", 0, 0, key, "x");
  int calls = 0;
  const absl::Status status = store_->Scan("job", 0, 0, [&calls](uint64_t, ParameterStore::Value) {
    return ++calls == 2 ? absl::CancelledError("enough") : absl::OkStatus();
  });
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_EQ(calls, 2);
}

TEST_P(ParameterStoreContractTest, AScanIsOfOneState) {
  for (uint64_t key = 0; key < 10; ++key) Put("job", 0, 0, key, "old");
  Found found;
  const absl::Status status =
      store_->Scan("job", 0, 0, [&](uint64_t key, ParameterStore::Value value) {
        // Changes what is still to come.
        Put("job", 0, 0, 9 - key, "new");
        Put("job", 0, 0, 100 + key, "new");
        found.emplace_back(key, std::string(AsText(value)));
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(found.size(), 10u);
  for (const auto& [key, value] : found) EXPECT_EQ(value, "old");
}

TEST_P(ParameterStoreContractTest, ManyKeysAtOnce) {
  StoreBatch batch("job");
  std::vector<std::string> values;
  for (uint64_t key = 0; key < 5000; ++key) values.push_back(absl::StrCat("value ", key));
  for (uint64_t key = 0; key < 5000; ++key) batch.Put(0, 0, 3 * key, AsBytes(values[key]));
  ASSERT_TRUE(store_->Write(batch, Durability::kSync).ok());
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; key < 15000; ++key) keys.push_back(key);
  const Found found = Get("job", 0, 0, keys);
  ASSERT_EQ(found.size(), 5000u);
  for (uint64_t key = 0; key < 5000; ++key) {
    EXPECT_EQ(found[key].first, 3 * key);
    EXPECT_EQ(found[key].second, values[key]);
  }
}

TEST_P(ParameterStoreContractTest, KeysMustAscend) {
  Put("job", 0, 0, 1, "x");
  int calls = 0;
  const auto count = [&calls](size_t, ParameterStore::Value) { ++calls; };
  EXPECT_TRUE(absl::IsInvalidArgument(store_->MultiGet("job", 0, 0, {1, 1}, count)));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->MultiGet("job", 0, 0, {1, 3, 2}, count)));
  EXPECT_EQ(calls, 0);
}

TEST_P(ParameterStoreContractTest, ABatchAppliesInOrder) {
  Put("job", 0, 1, 1, "before");
  StoreBatch batch("job");
  batch.Put(0, 1, 2, AsBytes("gone"));
  batch.DeletePartition(0, 1);
  batch.Put(0, 1, 3, AsBytes("first"));
  batch.Put(0, 1, 3, AsBytes("second"));
  batch.Put(0, 1, 4, AsBytes("gone"));
  batch.Delete(0, 1, 4);
  batch.PutMeta(1, AsBytes("meta"));
  ASSERT_TRUE(store_->Write(batch, Durability::kSync).ok());
  EXPECT_THAT(Scan("job", 0, 1), ElementsAre(Pair(3, "second")));
  EXPECT_EQ(store_->GetMeta("job", 1).value(), "meta");
}

TEST_P(ParameterStoreContractTest, DeletePartitionIsOfOneTable) {
  const uint64_t last = std::numeric_limits<uint64_t>::max();
  for (const uint32_t table : {0u, 1u, 2u}) {
    for (const uint32_t partition : {0u, 1u, 2u}) {
      for (const uint64_t key : {uint64_t{0}, last}) Put("job", table, partition, key, "x");
    }
  }
  StoreBatch batch("job");
  batch.DeletePartition(1, 1);
  ASSERT_TRUE(store_->Write(batch, Durability::kBuffered).ok());
  for (const uint32_t table : {0u, 1u, 2u}) {
    for (const uint32_t partition : {0u, 1u, 2u}) {
      EXPECT_EQ(Scan("job", table, partition).size(), table == 1 && partition == 1 ? 0u : 2u);
    }
  }
}

TEST_P(ParameterStoreContractTest, Metadata) {
  StoreBatch batch("job");
  batch.PutMeta(2, AsBytes("two"));
  batch.PutMeta(256, AsBytes(""));
  batch.PutMeta(1, AsBytes("one"));
  ASSERT_TRUE(store_->Write(batch, Durability::kSync).ok());
  EXPECT_THAT(store_->Partitions("job").value(), ElementsAre(1, 2, 256));
  EXPECT_EQ(store_->GetMeta("job", 256).value(), "");
  EXPECT_FALSE(store_->GetMeta("job", 3).value().has_value());
  EXPECT_FALSE(store_->GetMeta("other", 1).value().has_value());
}

TEST_P(ParameterStoreContractTest, DropJobLeavesTheOthers) {
  for (const std::string job : {"a", "b", "bb"}) {
    Put(job, 0, 0, 1, "x");
    StoreBatch batch(job);
    batch.PutMeta(0, AsBytes("m"));
    ASSERT_TRUE(store_->Write(batch, Durability::kBuffered).ok());
  }
  ASSERT_TRUE(store_->DropJob("b").ok());
  EXPECT_THAT(store_->Jobs().value(), ElementsAre("a", "bb"));
  EXPECT_THAT(Scan("b", 0, 0), IsEmpty());
  EXPECT_THAT(Scan("bb", 0, 0), ElementsAre(Pair(1, "x")));
  EXPECT_THAT(store_->Partitions("b").value(), IsEmpty());
  // A job of the same name starts anew.
  Put("b", 0, 0, 2, "y");
  EXPECT_THAT(Scan("b", 0, 0), ElementsAre(Pair(2, "y")));
}

TEST_P(ParameterStoreContractTest, AJobWithNothingLeftIsNotListed) {
  Put("job", 0, 0, 1, "x");
  StoreBatch batch("job");
  batch.Delete(0, 0, 1);
  ASSERT_TRUE(store_->Write(batch, Durability::kBuffered).ok());
  EXPECT_THAT(store_->Jobs().value(), IsEmpty());
  ASSERT_TRUE(store_->Write(StoreBatch("other"), Durability::kBuffered).ok());
  EXPECT_THAT(store_->Jobs().value(), IsEmpty());
}

TEST_P(ParameterStoreContractTest, BadJobIdsAreRefused) {
  for (const std::string& job : {std::string(), std::string("a\0b", 3)}) {
    StoreBatch batch(job);
    batch.Put(0, 0, 1, AsBytes("x"));
    const auto nothing = [](uint64_t, ParameterStore::Value) { return absl::OkStatus(); };
    for (const absl::Status& status :
         {store_->Write(batch, Durability::kBuffered), store_->DropJob(job),
          store_->Scan(job, 0, 0, nothing), store_->GetMeta(job, 0).status(),
          store_->Partitions(job).status(),
          store_->MultiGet(job, 0, 0, {1}, [](size_t, ParameterStore::Value) {})}) {
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    }
  }
  EXPECT_THAT(store_->Jobs().value(), IsEmpty());
}

TEST_P(ParameterStoreContractTest, ReadersSeeWholeBatches) {
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int round = 0; round < 300; ++round) {
      StoreBatch batch("job");
      const std::string value = absl::StrCat(round);
      for (uint64_t key = 0; key < 2000; key += 100) batch.Put(0, 0, key, AsBytes(value));
      EXPECT_TRUE(store_->Write(batch, Durability::kBuffered).ok());
    }
    done = true;
  });
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; key < 2000; ++key) keys.push_back(key);
  while (!done) {
    const Found scanned = Scan("job", 0, 0);
    for (const auto& [key, value] : scanned) ASSERT_EQ(value, scanned[0].second);
    const Found got = Get("job", 0, 0, keys);
    for (const auto& [index, value] : got) ASSERT_EQ(value, got[0].second);
  }
  writer.join();
  EXPECT_EQ(Scan("job", 0, 0).size(), 20u);
}

// Random batches against a map.
TEST_P(ParameterStoreContractTest, MatchesAModel) {
  std::mt19937 random(17);
  std::map<std::tuple<std::string, uint32_t, uint32_t, uint64_t>, std::string> model;
  const std::string jobs[] = {"a", "ab", "b"};
  for (int round = 0; round < 300; ++round) {
    const std::string& job = jobs[random() % 3];
    StoreBatch batch(job);
    std::vector<std::string> values;
    for (int i = 0; i < 20; ++i) values.push_back(absl::StrCat(round, ".", i));
    for (int i = 0; i < 20; ++i) {
      const uint32_t table = random() % 2;
      const uint32_t partition = random() % 3;
      const uint64_t key = random() % 50;
      const int kind = random() % 20;
      if (kind == 0) {
        batch.DeletePartition(table, partition);
        model.erase(model.lower_bound({job, table, partition, 0}),
                    model.lower_bound({job, table, partition + 1, 0}));
      } else if (kind < 6) {
        batch.Delete(table, partition, key);
        model.erase({job, table, partition, key});
      } else {
        batch.Put(table, partition, key, AsBytes(values[i]));
        model[{job, table, partition, key}] = values[i];
      }
    }
    ASSERT_TRUE(store_->Write(batch, Durability::kBuffered).ok());
    if (round % 60 == 59) {
      ASSERT_TRUE(store_->DropJob(jobs[0]).ok());
      model.erase(model.begin(), model.lower_bound({"ab", 0, 0, 0}));
    }
  }
  for (const std::string& job : jobs) {
    for (uint32_t table = 0; table < 2; ++table) {
      for (uint32_t partition = 0; partition < 3; ++partition) {
        Found expected;
        for (uint64_t key = 0; key < 50; ++key) {
          const auto at = model.find({job, table, partition, key});
          if (at != model.end()) expected.emplace_back(key, at->second);
        }
        EXPECT_EQ(Scan(job, table, partition), expected);
        std::vector<uint64_t> keys;
        for (uint64_t key = 0; key < 50; ++key) keys.push_back(key);
        EXPECT_EQ(Get(job, table, partition, keys), expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ParameterStoreContractTest,
    ::testing::Values(
        StoreImplementation{"RocksDb",
                            [](const std::string& directory) -> std::unique_ptr<ParameterStore> {
                              auto store = RocksDbStore::Create({.data_dir = directory});
                              EXPECT_TRUE(store.ok()) << store.status();
                              return *std::move(store);
                            }},
        StoreImplementation{"Memory",
                            [](const std::string&) -> std::unique_ptr<ParameterStore> {
                              return std::make_unique<MemoryStore>();
                            }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster
