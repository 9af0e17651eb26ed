// One suite for every JobStore, and what RocksDB's directory adds to it.
#include "server/coordinator/store/job_store.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/files/bytes_of_file.h"
#include "common/files/fake_folder_entries.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "server/coordinator/store/memory_job_store_for_testing.h"
#include "server/coordinator/store/rocksdb_job_store.h"

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
  const std::string directory =
      std::filesystem::path(::testing::TempDir() + "/" + name).lexically_normal().string();
  std::filesystem::remove_all(directory);
  return directory;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
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

TEST(RocksDbJobStoreTest, RefusesAndKeepsAFolderOfOtherFiles) {
  const std::string directory = FreshDirectory();
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/thesis.txt") << "important";
  const absl::Status status = RocksDbJobStore::Open(directory).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'thesis.txt'"));
  EXPECT_THAT(NamesIn(directory), ElementsAre("thesis.txt"));
}

TEST(RocksDbJobStoreTest, TakesTheFolderOfAReleaseThatLeftNoMark) {
  const std::string directory = FreshDirectory();
  {
    auto store = *RocksDbJobStore::Open(directory);
    JobStoreBatch batch;
    batch.Put(StoreTable::kJobs, "a", "1");
    ASSERT_TRUE(store->Write(batch, Durability::kSynced).ok());
  }
  ASSERT_TRUE(std::filesystem::remove(directory + "/MUSTER_COORDINATOR"));
  std::filesystem::create_directories(directory + "/checkpoints");
  EXPECT_THAT(All(**RocksDbJobStore::Open(directory), StoreTable::kJobs), ElementsAre("a=1"));
  EXPECT_TRUE(std::filesystem::exists(directory + "/MUSTER_COORDINATOR"));
}

TEST(RocksDbJobStoreTest, RefusesAndKeepsAnotherProgramsDatabase) {
  const std::string directory = FreshDirectory();
  std::filesystem::create_directories(directory);
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, directory + "/jobs", &db).ok());
  ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), "k", "v").ok());
  delete db;
  EXPECT_EQ(RocksDbJobStore::Open(directory).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(rocksdb::DB::Open(options, directory + "/jobs", &db).ok());
  std::string value;
  EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), "k", &value).ok());
  EXPECT_EQ(value, "v");
  delete db;
}

TEST(RocksDbJobStoreTest, RefusesANewerFormatByName) {
  const std::string directory = FreshDirectory();
  ASSERT_TRUE(RocksDbJobStore::Open(directory).ok());
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(rocksdb::Options(), directory + "/jobs", &db).ok());
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

// A store with jobs 0 to 29, one write each, all of them only in its write-ahead log.
std::string StoreOfThirtyJobs() {
  const std::string directory = FreshDirectory();
  auto store = *RocksDbJobStore::Open(directory);
  for (uint64_t job = 0; job < 30; ++job) {
    JobStoreBatch batch;
    batch.Put(StoreTable::kJobs, StoreKey("j", job), std::string(50, 'x'));
    EXPECT_TRUE(store->Write(batch, Durability::kSynced).ok());
  }
  return directory;
}

std::string LogIn(const std::string& directory) {
  for (const std::string& name : NamesIn(directory + "/jobs")) {
    if (absl::EndsWith(name, ".log")) return directory + "/jobs/" + name;
  }
  return "";
}

// Opens a copy of the folder whose log has other contents.
absl::StatusOr<std::vector<std::string>> OpenedWith(const std::string& directory,
                                                    const std::string& log) {
  const std::string copy = directory + ".copy";
  std::filesystem::remove_all(copy);
  std::filesystem::copy(directory, copy, std::filesystem::copy_options::recursive);
  std::ofstream(LogIn(copy), std::ios::binary | std::ios::trunc) << log;
  // Without the time of real syncs.
  FakeFolderEntries entries;
  const auto store = RocksDbJobStore::Open(copy, entries);
  if (!store.ok()) return store.status();
  return All(**store, StoreTable::kJobs);
}

TEST(RocksDbJobStoreTest, DamageAnywhereInItsLogIsRefusedByName) {
  const std::string directory = StoreOfThirtyJobs();
  const std::string log = BytesOfFile(LogIn(directory));
  ASSERT_GT(log.size(), 2000u);
  // Every part of records near the start, the middle and the end, the lengths of all among them.
  for (size_t at = 0; at < log.size(); at += at < 90 || at > log.size() - 90 ? 1 : 101) {
    std::string damaged = log;
    damaged[at] ^= 0x41;
    const auto opened = OpenedWith(directory, damaged);
    ASSERT_EQ(opened.status().code(), absl::StatusCode::kDataLoss) << at;
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(LogIn(directory + ".copy")));
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr("truncate -s "));
    EXPECT_EQ(BytesOfFile(LogIn(directory + ".copy")), damaged) << "left as it is";
  }
}

TEST(RocksDbJobStoreTest, ATornEndOfItsLogIsCut) {
  const std::string directory = StoreOfThirtyJobs();
  const std::string log = BytesOfFile(LogIn(directory));
  size_t last = 30;
  for (size_t cut = 1; cut < 400; cut += 31) {
    const auto opened = OpenedWith(directory, log.substr(0, log.size() - cut));
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_LE(opened->size(), last);
    EXPECT_GE(opened->size(), 30 - cut / 50 - 1);
    last = opened->size();
  }
  EXPECT_LT(last, 28u);
  // The file has its size, and not yet its last sector.
  const size_t sectors = log.size() / 512 * 512;
  const auto opened =
      OpenedWith(directory, log.substr(0, sectors) + std::string(log.size() - sectors, '\0'));
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_GT(opened->size(), 20u);
}

TEST(RocksDbJobStoreTest, AMissingOrDamagedStartIsRefused) {
  const std::string directory = StoreOfThirtyJobs();
  std::ofstream(directory + "/jobs/CURRENT") << "MANIFEST-999999\n";
  absl::Status status = RocksDbJobStore::Open(directory).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(directory + "/jobs/CURRENT"));
  std::filesystem::remove(directory + "/jobs/CURRENT");
  status = RocksDbJobStore::Open(directory).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("CURRENT is missing"));
}

// The coordinator's process ends between any two changes of names, another one starts, and the
// power goes: what the second one has written is there.
TEST(RocksDbJobStoreTest, ItsFoldersOutliveCrashes) {
  const std::string directory = FreshDirectory() + "/new/data";
  bool ended = true;
  for (int operations = 0; ended; ++operations) {
    std::filesystem::remove_all(FreshDirectory());
    std::filesystem::create_directories(FreshDirectory());
    FakeFolderEntries entries;
    entries.EndProcessAfter(operations);
    RocksDbJobStore::Open(directory, entries).status().IgnoreError();
    ended = entries.StartProcess();
    {
      auto store = RocksDbJobStore::Open(directory, entries);
      ASSERT_TRUE(store.ok()) << store.status();
      JobStoreBatch batch;
      batch.Put(StoreTable::kJobs, "a", "1");
      ASSERT_TRUE((*store)->Write(batch, Durability::kSynced).ok());
    }
    entries.LosePower();
    auto store = RocksDbJobStore::Open(directory, entries);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_THAT(All(**store, StoreTable::kJobs), ElementsAre("a=1")) << operations;
    ASSERT_LT(operations, 100);
  }
}

}  // namespace
}  // namespace muster
