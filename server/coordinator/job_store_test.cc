// One suite for every JobStore, and what RocksDB's directory adds to it.
#include "server/coordinator/job_store.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "server/coordinator/memory_job_store.h"
#include "server/coordinator/rocksdb_job_store.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Durability = JobStore::Durability;

std::string FreshDirectory() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "." + test->name();
  for (char& c : name) c = c == '/' ? '_' : c;
  const std::string directory = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(directory);
  return directory;
}

std::vector<std::string> All(const JobStore& store, StoreTable table,
                             absl::string_view prefix = "") {
  std::vector<std::string> all;
  EXPECT_TRUE(store
                  .Scan(table, prefix,
                        [&](absl::string_view key, absl::string_view value) {
                          all.push_back(std::string(key) + "=" + std::string(value));
                          return absl::OkStatus();
                        })
                  .ok());
  return all;
}

struct Kind {
  const char* name;
  std::function<std::unique_ptr<JobStore>()> make;
};

class JobStoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  JobStoreTest() : store_(GetParam().make()) {}

  void Put(StoreTable table, const std::string& key, const std::string& value) {
    JobStoreBatch batch;
    batch.Put(table, key, value);
    ASSERT_TRUE(store_->Write(batch, Durability::kSynced).ok());
  }

  std::unique_ptr<JobStore> store_;
};

INSTANTIATE_TEST_SUITE_P(All, JobStoreTest,
                         ::testing::Values(Kind{"Memory",
                                                [] { return std::make_unique<MemoryJobStore>(); }},
                                           Kind{"RocksDb",
                                                []() -> std::unique_ptr<JobStore> {
                                                  return *RocksDbJobStore::Open(FreshDirectory());
                                                }}),
                         [](const auto& info) { return info.param.name; });

TEST_P(JobStoreTest, TablesAreApartAndOrdered) {
  Put(StoreTable::kJobs, "b", "2");
  Put(StoreTable::kJobs, "a", "1");
  Put(StoreTable::kDaemons, "a", "3");
  EXPECT_THAT(All(*store_, StoreTable::kJobs), ElementsAre("a=1", "b=2"));
  EXPECT_THAT(All(*store_, StoreTable::kDaemons), ElementsAre("a=3"));
  EXPECT_THAT(All(*store_, StoreTable::kEvents), IsEmpty());
}

TEST_P(JobStoreTest, ABatchIsAppliedInOrder) {
  Put(StoreTable::kJobs, "a", "1");
  JobStoreBatch batch;
  batch.Put(StoreTable::kJobs, "b", "2");
  batch.Delete(StoreTable::kJobs, "a");
  batch.Put(StoreTable::kJobs, "b", "3");
  ASSERT_TRUE(store_->Write(batch, Durability::kBuffered).ok());
  EXPECT_THAT(All(*store_, StoreTable::kJobs), ElementsAre("b=3"));
}

TEST_P(JobStoreTest, DeletesByPrefixAndNothingElse) {
  for (const char* id : {"j", "j1", "j10", "j2"}) {
    for (uint64_t n : {0, 1, 255, 256}) Put(StoreTable::kLogs, StoreKey(id, n), "x");
  }
  Put(StoreTable::kEvents, StoreKey("j1", 0), "event");
  JobStoreBatch batch;
  batch.DeletePrefix(StoreTable::kLogs, StoreKeyPrefix("j1"));
  ASSERT_TRUE(store_->Write(batch, Durability::kSynced).ok());
  EXPECT_THAT(All(*store_, StoreTable::kLogs, StoreKeyPrefix("j1")), IsEmpty());
  EXPECT_EQ(All(*store_, StoreTable::kLogs).size(), 12);
  EXPECT_EQ(All(*store_, StoreTable::kEvents).size(), 1);
}

TEST_P(JobStoreTest, NumbersInKeysAreInOrder) {
  std::vector<uint64_t> want = {0, 1, 255, 256, 65535, 1 << 30, ~uint64_t{0}};
  for (uint64_t n : {want[4], want[0], want[6], want[2], want[1], want[3], want[5]}) {
    Put(StoreTable::kEvents, StoreKey("j", n), "");
  }
  std::vector<uint64_t> got;
  ASSERT_TRUE(store_
                  ->Scan(StoreTable::kEvents, StoreKeyPrefix("j"),
                         [&](absl::string_view key, absl::string_view) {
                           got.push_back(StoreKeyNumber(key));
                           return absl::OkStatus();
                         })
                  .ok());
  EXPECT_EQ(got, want);
}

TEST_P(JobStoreTest, TheVisitorsErrorEndsTheScan) {
  Put(StoreTable::kJobs, "a", "");
  Put(StoreTable::kJobs, "b", "");
  int visits = 0;
  const absl::Status status =
      store_->Scan(StoreTable::kJobs, "", [&](absl::string_view, absl::string_view) {
        ++visits;
        return absl::DataLossError("bad");
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(visits, 1);
}

TEST(StoreKeyTest, SplitsWhatItJoined) {
  const auto [server, job] = SplitStoreKey(StoreKey("server-0", "j1-abcd"));
  EXPECT_EQ(server, "server-0");
  EXPECT_EQ(job, "j1-abcd");
}

TEST(RocksDbJobStoreTest, KeepsRecordsAcrossOpens) {
  const std::string directory = FreshDirectory();
  {
    auto store = *RocksDbJobStore::Open(directory);
    JobStoreBatch batch;
    batch.Put(StoreTable::kJobs, "a", "1");
    ASSERT_TRUE(store->Write(batch, Durability::kBuffered).ok());
  }
  EXPECT_THAT(All(**RocksDbJobStore::Open(directory), StoreTable::kJobs), ElementsAre("a=1"));
}

TEST(RocksDbJobStoreTest, RefusesAndKeepsADirectoryOfOtherFiles) {
  const std::string directory = FreshDirectory();
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/thesis.txt") << "important";
  const absl::Status status = RocksDbJobStore::Open(directory).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a coordinator's data"));
  EXPECT_TRUE(std::filesystem::exists(directory + "/thesis.txt"));
}

TEST(RocksDbJobStoreTest, RefusesAndKeepsAnotherProgramsDatabase) {
  const std::string directory = FreshDirectory();
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, directory, &db).ok());
  ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), "k", "v").ok());
  delete db;
  EXPECT_EQ(RocksDbJobStore::Open(directory).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(rocksdb::DB::Open(options, directory, &db).ok());
  std::string value;
  EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), "k", &value).ok());
  EXPECT_EQ(value, "v");
  delete db;
}

TEST(RocksDbJobStoreTest, RefusesANewerFormatByName) {
  const std::string directory = FreshDirectory();
  ASSERT_TRUE(RocksDbJobStore::Open(directory).ok());
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), directory, &db).ok());
  ASSERT_TRUE(
      db->Put(rocksdb::WriteOptions(), rocksdb::Slice("\0muster-coordinator", 19), "2").ok());
  delete db;
  const absl::Status status = RocksDbJobStore::Open(directory).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("format version 2"));
}

TEST(RocksDbJobStoreTest, OneProcessAtATime) {
  const std::string directory = FreshDirectory();
  auto first = *RocksDbJobStore::Open(directory);
  EXPECT_EQ(RocksDbJobStore::Open(directory).status().code(), absl::StatusCode::kUnavailable);
}

TEST(RocksDbJobStoreTest, ReportsADamagedDirectory) {
  const std::string directory = FreshDirectory();
  ASSERT_TRUE(RocksDbJobStore::Open(directory).ok());
  std::ofstream(directory + "/CURRENT") << "MANIFEST-999999\n";
  const absl::Status status = RocksDbJobStore::Open(directory).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(directory));
}

}  // namespace
}  // namespace muster
