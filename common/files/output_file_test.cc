#include "common/files/output_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;

class OutputFileTest : public ::testing::Test {
 protected:
  std::string At(const std::string& name) const { return folder_.path() + "/" + name; }

  // Names in the folder.
  int Names() const {
    return static_cast<int>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  const TempFolder folder_;
};

TEST_F(OutputFileTest, TheTargetIsThePathWhereThereIsNothing) {
  EXPECT_EQ(OutputTarget(At("new"), Replace::kNever).value(), At("new"));
  EXPECT_EQ(OutputTarget("relative", Replace::kNever).value(), "relative");
  EXPECT_FALSE(OutputTarget("", Replace::kNever).ok());
}

TEST_F(OutputFileTest, TheTargetIsWhereLinksLead) {
  fs::create_symlink("target", At("link"));
  EXPECT_EQ(OutputTarget(At("link"), Replace::kNever).value(), At("target")) << "not there yet";
  fs::create_symlink(At("link"), At("second"));
  EXPECT_EQ(OutputTarget(At("second"), Replace::kNever).value(), At("target"));
  fs::create_symlink("circle", At("circle"));
  EXPECT_THAT(std::string(OutputTarget(At("circle"), Replace::kNever).status().message()),
              HasSubstr("circle"));
}

TEST_F(OutputFileTest, WhatIsNoRegularFileIsNeverReplaced) {
  ASSERT_EQ(mkfifo(At("pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", At("link"));
  for (const Replace replace : {Replace::kNever, Replace::kFiles}) {
    for (const std::string& path : {At("pipe"), At("link"), folder_.path()}) {
      const absl::Status status = WriteOutputFile(path, replace, "x");
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    }
  }
  EXPECT_TRUE(fs::is_fifo(At("pipe")));
  EXPECT_EQ(Names(), 2) << "nothing is left";
}

// As /dev/stdout in a pipeline.
TEST_F(OutputFileTest, APipeWithoutANameIsRefusedAsOne) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string path = "/proc/self/fd/" + std::to_string(ends[1]);
  fs::create_symlink(path, At("link"));
  for (const std::string& name : {path, At("link")}) {
    EXPECT_THAT(std::string(WriteOutputFile(name, Replace::kNever, "x").message()),
                HasSubstr(name + " is no file"));
  }
  close(ends[0]);
  close(ends[1]);
}

// For root, to whom a rename over /dev/null would be allowed.
TEST_F(OutputFileTest, ADeviceStaysADevice) {
  if (mknod(At("null").c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) {
    GTEST_SKIP() << "only root may make devices";
  }
  for (const Replace replace : {Replace::kNever, Replace::kFiles}) {
    EXPECT_THAT(std::string(WriteOutputFile(At("null"), replace, "x").message()),
                HasSubstr("null is no file"));
  }
  EXPECT_TRUE(fs::is_character_file(At("null")));
}

TEST_F(OutputFileTest, AFileIsReplacedOnlyIfItsUserSaysSo) {
  fs::create_symlink("old", At("link"));
  for (const char* name : {"old", "link"}) {
    std::ofstream(At("old")) << "old";
    const absl::Status status = WriteOutputFile(At(name), Replace::kNever, "new");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(At(name) + " is there already"), HasSubstr("--force")));
    EXPECT_EQ(BytesOfFile(At("old")), "old");
    ASSERT_TRUE(WriteOutputFile(At(name), Replace::kFiles, "new").ok());
    EXPECT_EQ(BytesOfFile(At("old")), "new");
  }
  EXPECT_TRUE(fs::is_symlink(At("link"))) << "followed, not replaced";
  EXPECT_EQ(Names(), 2);
}

// As file systems have it that know files without names, and as others do.
constexpr decltype(&OutputFile::Create) kCreate[] = {&OutputFile::Create, &OutputFile::CreateNamed};

TEST_F(OutputFileTest, ItAppearsWhenItIsPublished) {
  for (const auto create : kCreate) {
    for (const Replace replace : {Replace::kNever, Replace::kFiles}) {
      auto file = create(At("new"), replace);
      ASSERT_TRUE(file.ok()) << file.status();
      ASSERT_TRUE((*file)->Write("abcd").ok());
      ASSERT_TRUE((*file)->WriteAt(1, "XY").ok());
      EXPECT_FALSE(fs::exists(At("new")));
      EXPECT_EQ(BytesOfFile((*file)->partial()), "aXYd");
      ASSERT_TRUE((*file)->Publish().ok());
      file->reset();
      EXPECT_EQ(BytesOfFile(At("new")), "aXYd");
      EXPECT_EQ(Names(), 1);
      fs::remove(At("new"));
    }
  }
}

TEST_F(OutputFileTest, NothingIsLeftOfWhatWasNotPublished) {
  ASSERT_TRUE(CheckOutputFile(At("new"), Replace::kNever).ok());
  {
    const auto file = OutputFile::CreateNamed(At("new"), Replace::kNever);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Write("x").ok());
    EXPECT_EQ(Names(), 1);
  }
  EXPECT_EQ(Names(), 0);
}

// Ctrl-C, and whatever else ends a command.
TEST_F(OutputFileTest, AProcessThatIsKilledLeavesNothing) {
  if (const int file = open(At("").c_str(), O_TMPFILE | O_WRONLY, 0600); file >= 0) {
    close(file);
  } else {
    GTEST_SKIP() << "the file system of " << folder_.path() << " has no files without names";
  }
  // The child is a copy, which has the same folder.
  testing::FLAGS_gtest_death_test_style = "fast";
  const auto write = [this] {
    const auto file = OutputFile::Create(At("new"), Replace::kNever);
    if (file.ok() && (*file)->Write("x").ok()) raise(SIGKILL);
  };
  EXPECT_EXIT(write(), testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(Names(), 0);
}

// Two commands at a time, or somebody else: what has come meanwhile was not seen before.
TEST_F(OutputFileTest, WhatTookTheNameMeanwhileIsNotReplaced) {
  for (const auto create : kCreate) {
    const auto first = create(At("new"), Replace::kNever);
    const auto second = create(At("new"), Replace::kNever);
    const auto forced = create(At("new"), Replace::kFiles);
    ASSERT_TRUE(first.ok() && second.ok() && forced.ok());
    ASSERT_TRUE((*first)->Write("first").ok());
    ASSERT_TRUE((*first)->Publish().ok());
    EXPECT_THAT(std::string((*second)->Publish().message()), HasSubstr("is there already"));
    EXPECT_EQ(BytesOfFile(At("new")), "first");
    fs::remove(At("new"));
    ASSERT_EQ(mkfifo(At("new").c_str(), 0600), 0);
    EXPECT_FALSE((*forced)->Publish().ok());
    EXPECT_TRUE(fs::is_fifo(At("new")));
    fs::remove(At("new"));
  }
}

TEST_F(OutputFileTest, AReplacedFileKeepsItsPermissions) {
  std::ofstream(At("private")) << "old";
  ASSERT_EQ(chmod(At("private").c_str(), 0600), 0);
  ASSERT_TRUE(WriteOutputFile(At("private"), Replace::kFiles, "new").ok());
  EXPECT_EQ(fs::status(At("private")).permissions(), fs::perms(0600));
}

TEST_F(OutputFileTest, AMissingFolderIsNamed) {
  const absl::Status status = CheckOutputFile(At("no/file"), Replace::kNever);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write " + At("no/file")));
}

}  // namespace
}  // namespace muster
