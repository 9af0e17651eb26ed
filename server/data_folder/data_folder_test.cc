#include "server/data_folder/data_folder.h"

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/files/fake_folder_entries.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(DataFolderTest, RefusesAFolderOfSomethingElseAndLeavesIt) {
  for (const DataOwner owner : {DataOwner::kServer, DataOwner::kCoordinator}) {
    TempFolder temp;
    temp.Write("passwd", "root:x:0:0");
    const absl::Status status = ClaimDataFolder(temp.path(), owner, "").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'passwd'"));
    EXPECT_EQ(std::distance(fs::directory_iterator(temp.path()), fs::directory_iterator()), 1);
  }
}

TEST(DataFolderTest, RefusesTheFolderOfAnotherDaemon) {
  TempFolder server, coordinator;
  ASSERT_TRUE(ClaimDataFolder(server.path(), DataOwner::kServer, "s0").ok());
  ASSERT_TRUE(ClaimDataFolder(coordinator.path(), DataOwner::kCoordinator, "").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      ClaimDataFolder(server.path(), DataOwner::kCoordinator, "").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      ClaimDataFolder(coordinator.path(), DataOwner::kServer, "s0").status()));
  EXPECT_EQ(ClaimDataFolder(server.path(), DataOwner::kServer, "").value(), "s0");
  EXPECT_EQ(ClaimDataFolder(coordinator.path(), DataOwner::kCoordinator, "").value(), "");
}

TEST(DataFolderTest, RefusesANewerFormat) {
  TempFolder temp;
  temp.Write("MUSTER_COORDINATOR", "Muster coordinator data\nformat 2\n");
  const absl::Status status = ClaimDataFolder(temp.path(), DataOwner::kCoordinator, "").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("format version 2"));
}

TEST(DataFolderTest, ASubfolderThatACrashedProcessMadeLasts) {
  TempFolder temp;
  FakeFolderEntries entries;
  entries.EndProcessAfter(1);
  EXPECT_FALSE(MakeDataSubfolder(temp.path(), "logs", entries).ok());
  ASSERT_TRUE(entries.StartProcess());
  const auto path = MakeDataSubfolder(temp.path(), "logs", entries);
  ASSERT_TRUE(path.ok()) << path.status();
  entries.LosePower();
  EXPECT_TRUE(fs::exists(*path));
}

// A process ends between any two changes of names, another one goes on, and the power goes.
TEST(DataFolderTest, FoldersOutliveCrashes) {
  for (const DataOwner owner : {DataOwner::kServer, DataOwner::kCoordinator}) {
    bool ended = true;
    for (int operations = 0; ended; ++operations) {
      TempFolder temp;
      const std::string folder = absl::StrCat(temp.path(), "/new/data");
      FakeFolderEntries entries;
      const auto start = [&]() -> absl::StatusOr<std::string> {
        const auto id = ClaimDataFolder(folder, owner, "", entries);
        if (!id.ok()) return id;
        for (const char* name : {"store", "logs"}) {
          const auto path = MakeDataSubfolder(folder, name, entries);
          if (!path.ok()) return path.status();
        }
        return id;
      };
      entries.EndProcessAfter(operations);
      start().status().IgnoreError();
      ended = entries.StartProcess();
      const auto id = start();
      ASSERT_TRUE(id.ok()) << id.status();
      entries.LosePower();
      EXPECT_TRUE(fs::exists(folder + "/store")) << operations;
      EXPECT_TRUE(fs::exists(folder + "/logs")) << operations;
      EXPECT_EQ(ClaimDataFolder(folder, owner, "", entries).value(), *id) << operations;
      ASSERT_LT(operations, 100);
    }
  }
}

}  // namespace
}  // namespace muster
