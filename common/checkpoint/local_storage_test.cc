#include "common/checkpoint/local_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/storage.h"
#include "common/files/file_roots.h"
#include "common/files/publish_file.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LocalStorageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = JoinUri(::testing::TempDir(), "local_storage_test");
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  LocalStorage storage_;
  std::string root_;
};

TEST_F(LocalStorageTest, WhatACrashLeftIsNotListedAndGoesWithTheFolder) {
  std::ofstream(absl::StrCat(root_, "/folder-not-yet")).close();
  std::ofstream(absl::StrCat(root_, "/.writing-1-1-file")) << "half";
  EXPECT_THAT(storage_.List(root_).value(), ElementsAre("folder-not-yet"));
  ASSERT_TRUE(storage_.DeleteRecursively(root_).ok());
  EXPECT_FALSE(std::filesystem::exists(root_));
}

TEST_F(LocalStorageTest, DeletingALinkLeavesWhatItPointsTo) {
  std::filesystem::create_directories(absl::StrCat(root_, "/kept"));
  std::ofstream(absl::StrCat(root_, "/kept/file")) << "x";
  std::filesystem::create_directories(absl::StrCat(root_, "/deleted"));
  std::filesystem::create_directory_symlink(absl::StrCat(root_, "/kept"),
                                            absl::StrCat(root_, "/deleted/link"));
  ASSERT_TRUE(storage_.DeleteRecursively(absl::StrCat(root_, "/deleted")).ok());
  EXPECT_TRUE(std::filesystem::exists(absl::StrCat(root_, "/kept/file")));
}

TEST_F(LocalStorageTest, NoRoomIsResourceExhaustedWithARemedyAndLeavesNothing) {
  const std::string uri = absl::StrCat(root_, "/file");
  // A limit on the size of files stands for a full disk: write fails the same way.
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limited = before;
  limited.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  const absl::Status status = WriteFile(storage_, uri, std::string(1000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(uri));
  EXPECT_THAT(status.message(), HasSubstr("raise the limit"));
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(LocalStorageTest, PublishingNeverReplacesWhateverTheFileSystemCan) {
  int files = 0;
  for (const auto publish : {&PublishFile, &PublishFileByLink}) {
    const std::string from = absl::StrCat(root_, "/from-", ++files);
    const std::string to = absl::StrCat(root_, "/to-", files);
    std::ofstream(from) << "first";
    EXPECT_EQ(publish(from, to), 0);
    EXPECT_FALSE(std::filesystem::exists(from));
    std::ofstream(from) << "second";
    EXPECT_EQ(publish(from, to), EEXIST);
    EXPECT_EQ(ReadFile(storage_, to).value(), "first");
    EXPECT_EQ(ReadFile(storage_, from).value(), "second");
    // Not in place of a link that leads nowhere, either.
    std::filesystem::create_symlink("nowhere", to + "-link");
    EXPECT_EQ(publish(from, to + "-link"), EEXIST);
    EXPECT_EQ(publish(from, absl::StrCat(root_, "/none/to")), ENOENT);
  }
  // A link that was made already, though its maker was not told.
  const std::string from = absl::StrCat(root_, "/from"), to = absl::StrCat(root_, "/to");
  std::ofstream(from) << "x";
  std::filesystem::create_hard_link(from, to);
  EXPECT_EQ(PublishFileByLink(from, to), 0);
  EXPECT_FALSE(std::filesystem::exists(from));
}

// Who names a checkpoint may have put a pipe there: opening it would wait for a writer.
TEST_F(LocalStorageTest, WhatIsNoRegularFileIsDamageAndNotWaitedFor) {
  const std::string pipe = absl::StrCat(root_, "/MANIFEST");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, root_, std::string("/dev/zero")}) {
    const absl::Status status = storage_.Open(path).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

TEST_F(LocalStorageTest, NothingOutsideOfItsRootsIsReadWrittenListedOrDeleted) {
  const std::string inside = absl::StrCat(root_, "/inside");
  const std::string outside = absl::StrCat(root_, "/outside");
  ASSERT_TRUE(WriteFile(storage_, absl::StrCat(inside, "/file"), "x").ok());
  ASSERT_TRUE(WriteFile(storage_, absl::StrCat(outside, "/file"), "x").ok());
  std::filesystem::create_directory_symlink(outside, absl::StrCat(inside, "/link"));
  LocalStorage confined(*FileRoots::Create({inside}));
  for (const std::string& folder : {outside, absl::StrCat(inside, "/link")}) {
    const std::string file = absl::StrCat(folder, "/file");
    for (const absl::Status& status :
         {confined.Open(file).status(), WriteFile(confined, file, "y"),
          WriteFile(confined, absl::StrCat(folder, "/new/file"), "y"),
          confined.List(folder).status(), confined.Exists(file).status(),
          confined.DeleteRecursively(file), ProbeStorage(confined, folder)}) {
      EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    }
  }
  EXPECT_EQ(ReadFile(storage_, absl::StrCat(outside, "/file")).value(), "x");
  EXPECT_THAT(storage_.List(outside).value(), ElementsAre("file"));
  ASSERT_TRUE(WriteFile(confined, absl::StrCat(inside, "/new/file"), "y").ok());
  EXPECT_EQ(ReadFile(confined, absl::StrCat(inside, "/new/file")).value(), "y");
  EXPECT_TRUE(confined.DeleteRecursively(absl::StrCat(inside, "/new")).ok());
}

TEST_F(LocalStorageTest, JoinUriPutsOneSlash) {
  EXPECT_EQ(JoinUri("/a", "b"), "/a/b");
  EXPECT_EQ(JoinUri("file:///a/", "/b/c"), "file:///a/b/c");
}

}  // namespace
}  // namespace muster
