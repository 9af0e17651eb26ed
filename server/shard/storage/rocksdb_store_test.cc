// What only the persistent store has: reopening, and data directories that it must refuse. The rest
// is in parameter_store_contract_test.
#include "server/shard/storage/rocksdb_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/byte_text.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Durability = ParameterStore::Durability;
namespace fs = std::filesystem;

class RocksDbStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(::testing::TempDir(), "rocksdb_store_",
                              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  absl::StatusOr<std::unique_ptr<RocksDbStore>> Create(const std::string& server_id = "") {
    return RocksDbStore::Create({.data_dir = directory_, .server_id = server_id});
  }

  void WriteText(const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(directory_, "/", name)) << text;
  }

  // Names and contents of everything in the directory.
  std::map<std::string, std::string> Contents() {
    std::map<std::string, std::string> contents;
    for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
      std::string& text = contents[entry.path().string()];
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(file), {});
    }
    return contents;
  }

  // Create refuses with this in its message, and leaves the directory as it is.
  void ExpectRefused(const std::string& server_id, const std::string& text) {
    const auto before = Contents();
    const absl::Status status = Create(server_id).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(Contents(), before);
  }

  std::string directory_;
};

TEST_F(RocksDbStoreTest, KeepsItsDataAndIdentity) {
  std::string id;
  {
    const auto store = Create();
    ASSERT_TRUE(store.ok()) << store.status();
    id = (*store)->server_id();
    EXPECT_EQ(id.size(), 16u);
    StoreBatch batch("job");
    batch.Put(1, 2, 3, AsBytes("value"));
    batch.PutMeta(2, AsBytes("meta"));
    ASSERT_TRUE((*store)->Write(batch, Durability::kSync).ok());
  }
  const auto store = Create(id);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->server_id(), id);
  EXPECT_THAT((*store)->Jobs().value(), ElementsAre("job"));
  EXPECT_EQ((*store)->GetMeta("job", 2).value(), "meta");
}

TEST_F(RocksDbStoreTest, ASyncedBatchSurvivesKilling) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer cannot follow the fork of a process that has had threads";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    const auto store = Create("server-1");
    StoreBatch batch("job");
    batch.Put(0, 0, 1, AsBytes("value"));
    const bool ok = store.ok() && (*store)->Write(batch, Durability::kSync).ok();
    // No destructor runs, as in a crash.
    ::_exit(ok ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto store = Create("server-1");
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT((*store)->Jobs().value(), ElementsAre("job"));
}

TEST_F(RocksDbStoreTest, DroppedJobsStayDropped) {
  {
    const auto store = Create();
    StoreBatch batch("job");
    batch.Put(0, 0, 1, AsBytes("value"));
    ASSERT_TRUE((*store)->Write(batch, Durability::kSync).ok());
    ASSERT_TRUE((*store)->DropJob("job").ok());
  }
  EXPECT_TRUE((*Create())->Jobs().value().empty());
}

TEST_F(RocksDbStoreTest, TakesAnEmptyDirectoryOrAnEmptyFileSystem) {
  fs::create_directories(directory_ + "/lost+found");
  EXPECT_TRUE(Create("server-1").ok());
  EXPECT_TRUE(fs::exists(directory_ + "/lost+found"));
}

TEST_F(RocksDbStoreTest, OtherFoldersBesideTheDatabaseAreFree) {
  ASSERT_TRUE(Create("server-1").ok());
  fs::create_directories(directory_ + "/logs/job/3");
  EXPECT_TRUE(Create("server-1").ok());
  EXPECT_TRUE(fs::exists(directory_ + "/logs/job/3"));
}

TEST_F(RocksDbStoreTest, RefusesAForeignDirectory) {
  fs::create_directories(directory_);
  WriteText("thesis.tex", "years of work");
  ExpectRefused("", "'thesis.tex'");
}

TEST_F(RocksDbStoreTest, RefusesAForeignMark) {
  fs::create_directories(directory_);
  WriteText("MUSTER_SERVER", "something else\n");
  ExpectRefused("", "'something else'");
  WriteText("MUSTER_SERVER", "");
  ExpectRefused("", "MUSTER_SERVER");
  WriteText("MUSTER_SERVER", "Muster parameter server data\nformat x\nserver a\n");
  ExpectRefused("", "format version");
  WriteText("MUSTER_SERVER", "Muster parameter server data\nformat 1\n");
  ExpectRefused("", "server id");
}

TEST_F(RocksDbStoreTest, RefusesANewerFormatByName) {
  ASSERT_TRUE(Create("server-1").ok());
  WriteText("MUSTER_SERVER", "Muster parameter server data\nformat 2\nserver server-1\n");
  ExpectRefused("server-1",
                "format version 2, written by a later release of Muster; this one reads formats "
                "up to 1");
}

TEST_F(RocksDbStoreTest, RefusesAnotherServersData) {
  ASSERT_TRUE(Create("server-1").ok());
  ExpectRefused("server-2", "data of server server-1, this is server server-2");
}

TEST_F(RocksDbStoreTest, RefusesAFileInPlaceOfTheDirectory) {
  std::ofstream(directory_) << "a file";
  const absl::Status status = Create().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is no directory"));
}

TEST_F(RocksDbStoreTest, RefusesABadServerId) {
  EXPECT_TRUE(absl::IsInvalidArgument(Create("a b").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(RocksDbStore::Create({}).status()));
}

TEST_F(RocksDbStoreTest, ADirectoryInUseIsUnavailable) {
  const auto store = Create();
  ASSERT_TRUE(store.ok());
  const absl::Status status = Create().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("in use"));
}

TEST_F(RocksDbStoreTest, NamesTheFilesThatAreDamaged) {
  {
    const auto store = Create();
    const std::string value(1000, 'v');
    for (uint64_t key = 0; key < 400; ++key) {
      StoreBatch batch("job");
      batch.Put(0, 0, key, AsBytes(value));
      ASSERT_TRUE((*store)->Write(batch, Durability::kSync).ok());
    }
  }
  const std::map<std::string, std::string> before = Contents();
  int damaged = 0;
  for (const auto& [path, contents] : before) {
    const std::string name = fs::path(path).filename();
    const bool log = name.ends_with(".log");
    if (!log && name != "CURRENT" && name.substr(0, 8) != "MANIFEST") continue;
    std::string flipped = contents;
    flipped[log ? contents.size() / 3 : contents.size() / 2] ^= 0x10;
    std::ofstream(path) << flipped;
    const absl::Status status = Create().status();
    EXPECT_FALSE(status.ok()) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(directory_ + "/store/" + name));
    std::ofstream(path) << contents;
    ++damaged;
  }
  EXPECT_EQ(damaged, 3);
  EXPECT_TRUE(Create().ok());
}

TEST_F(RocksDbStoreTest, ADamagedDatabaseIsDataLoss) {
  {
    const auto store = Create();
    StoreBatch batch("job");
    batch.Put(0, 0, 1, AsBytes("value"));
    ASSERT_TRUE((*store)->Write(batch, Durability::kSync).ok());
  }
  WriteText("store/CURRENT", "MANIFEST-99\n");
  const absl::Status status = Create().status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(directory_ + "/store"));
}

}  // namespace
}  // namespace muster
