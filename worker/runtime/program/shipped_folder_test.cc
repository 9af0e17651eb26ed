#include "worker/runtime/program/shipped_folder.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/local_storage.h"
#include "common/files/temp_folder.h"
#include "common/program/content_hash.h"
#include "common/program/folder_archive.h"
#include "common/program/shipped_archives.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class ShippedFolderTest : public ::testing::Test {
 protected:
  ShippedFolderTest() {
    using Kind = ArchiveEntry::Kind;
    ArchiveWriter writer(archive_);
    writer.Add({Kind::kFolder, "data"}, "");
    writer.Add({Kind::kFile, "data/a.txt"}, "text");
    writer.Add({Kind::kExecutable, "run.sh"}, "#!/bin/sh\n");
    writer.End();
    options_.base = folder_.path() + "/unpacked";
    options_.checkpoint_root = folder_.path() + "/checkpoints";
    options_.job_id = "j1-0000";
    options_.name = Store(archive_);
  }

  // Puts an archive where the coordinator does; returns its name.
  std::string Store(const std::string& archive) {
    ContentHash hash;
    hash.Add(archive);
    const std::string name = hash.Name();
    LocalStorage storage;
    auto writer = ShippedArchives(storage, options_.checkpoint_root).Create(name, archive.size());
    EXPECT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE((*writer)->Append(archive).ok() && (*writer)->Commit().ok());
    return name;
  }

  std::unique_ptr<ShippedFolder> Take() {
    auto taken = ShippedFolder::Take(options_);
    EXPECT_TRUE(taken.ok()) << taken.status();
    return *std::move(taken);
  }

  // Names in the base, but for the lock's.
  std::vector<std::string> Left() {
    std::vector<std::string> left;
    for (const auto& each : std::filesystem::directory_iterator(options_.base)) {
      if (each.path().filename() != "lock") left.push_back(each.path().filename().string());
    }
    return left;
  }

  TempFolder folder_;
  std::string archive_;
  ShippedFolder::Options options_;
};

TEST_F(ShippedFolderTest, UnpacksWhatWasShippedUntilNobodyNeedsIt) {
  auto first = Take();
  std::ifstream text(first->path() + "/data/a.txt");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(text), {}), "text");
  EXPECT_EQ(access((first->path() + "/run.sh").c_str(), X_OK), 0);
  EXPECT_NE(access((first->path() + "/data/a.txt").c_str(), X_OK), 0);
  // The archive is not read again for the second task.
  std::filesystem::remove_all(options_.checkpoint_root);
  auto second = Take();
  EXPECT_EQ(second->path(), first->path());
  std::ofstream(first->path() + "/output") << "of the first";
  first.reset();
  EXPECT_TRUE(std::filesystem::exists(second->path() + "/output"));
  second.reset();
  EXPECT_THAT(Left(), testing::IsEmpty());
  Store(archive_);
  EXPECT_FALSE(std::filesystem::exists(Take()->path() + "/output"));
}

TEST_F(ShippedFolderTest, EachJobHasItsOwn) {
  const auto first = Take();
  options_.job_id = "j2-0000";
  EXPECT_NE(Take()->path(), first->path());
}

TEST_F(ShippedFolderTest, WhatAKilledTaskLeftIsRemoved) {
  const pid_t child = fork();
  if (child == 0) {
    const auto taken = ShippedFolder::Take(options_);
    _exit(taken.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_THAT(Left(), testing::SizeIs(2));
  // Half of another one.
  std::filesystem::create_directories(options_.base + "/j9-0000.sha256.new/data");
  std::ofstream(options_.base + "/j9-0000.sha256.held");
  RemoveUnusedFolders(options_.base);
  EXPECT_THAT(Left(), testing::IsEmpty());
  RemoveUnusedFolders(options_.base + "/none");
}

TEST_F(ShippedFolderTest, NothingIsLeftOfWhatCannotBeUnpacked) {
  const std::string escape = [] {
    std::string archive;
    ArchiveWriter writer(archive);
    writer.Add({ArchiveEntry::Kind::kFile, "a"}, "x");
    writer.Add({ArchiveEntry::Kind::kFile, "../../evil"}, "x");
    writer.End();
    return archive;
  }();
  options_.name = Store(escape);
  EXPECT_EQ(ShippedFolder::Take(options_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/evil"));
  EXPECT_THAT(Left(), testing::IsEmpty());

  std::string changed = archive_;
  changed[changed.find("text")] = 'T';
  ContentHash hash;
  hash.Add(archive_);
  options_.name = hash.Name();
  std::ofstream(*ShippedArchiveUri(options_.checkpoint_root, options_.name)) << changed;
  const auto damaged = ShippedFolder::Take(options_);
  EXPECT_THAT(std::string(damaged.status().message()), HasSubstr("not those that its name says"));
  EXPECT_THAT(Left(), testing::IsEmpty());
}

TEST_F(ShippedFolderTest, SaysWhatIsMissing) {
  std::filesystem::remove_all(options_.checkpoint_root);
  const absl::Status missing = ShippedFolder::Take(options_).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("--checkpoint-root has to be a folder"));
  for (const char* job : {"", "..", "../j1", "a/b"}) {
    options_.job_id = job;
    EXPECT_EQ(ShippedFolder::Take(options_).status().code(), absl::StatusCode::kInvalidArgument);
  }
  options_.job_id = "j1-0000";
  options_.name = "../../x";
  EXPECT_EQ(ShippedFolder::Take(options_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ShippedFolderTest, ABaseThatOthersMayChangeIsRefused) {
  ASSERT_EQ(mkdir(options_.base.c_str(), 0700), 0);
  ASSERT_EQ(chmod(options_.base.c_str(), 0770), 0);
  const absl::Status open = ShippedFolder::Take(options_).status();
  EXPECT_EQ(open.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(open.message()), HasSubstr("TMPDIR"));
  std::filesystem::remove(options_.base);
  ASSERT_EQ(symlink("/tmp", options_.base.c_str()), 0);
  EXPECT_EQ(ShippedFolder::Take(options_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace muster
