#include "client/job/pack_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "common/program/folder_archive.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PackFolderTest : public ::testing::Test {
 protected:
  void MakeFolder(const std::string& name) {
    std::filesystem::create_directories(folder_.path() + "/" + name);
  }
  std::string Error() { return std::string(PackFolder(folder_.path()).status().message()); }

  TempFolder folder_;
};

TEST_F(PackFolderTest, PacksFilesAndFoldersInOrder) {
  folder_.Write("train.py", "print(1)\n");
  chmod(folder_.Write("run.sh", "#!/bin/sh\n").c_str(), 0755);
  MakeFolder("a/empty");
  folder_.Write("a/data.txt", "text");
  std::string expected;
  ArchiveWriter writer(expected);
  using Kind = ArchiveEntry::Kind;
  writer.Add({Kind::kFolder, "a"}, "");
  writer.Add({Kind::kFile, "a/data.txt"}, "text");
  writer.Add({Kind::kFolder, "a/empty"}, "");
  writer.Add({Kind::kExecutable, "run.sh"}, "#!/bin/sh\n");
  writer.Add({Kind::kFile, "train.py"}, "print(1)\n");
  writer.End();
  const auto packed = PackFolder(folder_.path());
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->archive, expected);
  EXPECT_EQ(packed->files, 3u);
}

TEST_F(PackFolderTest, TheNameIsThatOfTheContentAlone) {
  folder_.Write("train.py", "print(1)\n");
  const std::string name = PackFolder(folder_.path())->name;
  TempFolder other;
  const std::string file = other.Write("train.py", "print(1)\n");
  EXPECT_EQ(PackFolder(other.path())->name, name);
  chmod(file.c_str(), 0700);
  EXPECT_NE(PackFolder(other.path())->name, name);
  chmod(file.c_str(), 0600);
  other.Write("train.py", "print(2)\n");
  EXPECT_NE(PackFolder(other.path())->name, name);
}

TEST_F(PackFolderTest, LeavesOutWhatTheWorkersDoNotNeed) {
  folder_.Write("train.py", "");
  const std::string before = PackFolder(folder_.path())->archive;
  for (const char* folder : {".git", "__pycache__", "sub/__pycache__", "env", "cluster", "data"}) {
    MakeFolder(folder);
  }
  std::filesystem::remove_all(folder_.path() + "/sub");
  folder_.Write(".git/HEAD", "ref");
  folder_.Write("__pycache__/train.pyc", "x");
  folder_.Write("env/pyvenv.cfg", "");
  symlink("/usr/bin/python3", (folder_.path() + "/env/python").c_str());
  folder_.Write("cluster/cluster.json", "{}");
  folder_.Write("cluster/program.token", "secret");
  folder_.Write("data/large", "x");
  folder_.Write("a.log", "x");
  folder_.Write(".musterignore", "*.log\n/data/\n.musterignore\n");
  EXPECT_EQ(PackFolder(folder_.path())->archive, before);
}

TEST_F(PackFolderTest, LinksAndOtherKindsAreRefusedByName) {
  symlink("/etc/passwd", (folder_.path() + "/link").c_str());
  EXPECT_THAT(Error(), AllOf(HasSubstr(folder_.path() + "/link is a symbolic link"),
                             HasSubstr(".musterignore")));
  folder_.Write(".musterignore", "link\n");
  EXPECT_EQ(PackFolder(folder_.path()).status(), absl::OkStatus());
  mkfifo((folder_.path() + "/pipe").c_str(), 0600);
  EXPECT_THAT(Error(), HasSubstr("pipe is no regular file"));
}

TEST_F(PackFolderTest, WhatIsTooLargeIsNamed) {
  const std::string large = folder_.Write("weights.pt", "");
  std::filesystem::resize_file(large, uint64_t{300} << 20);
  folder_.Write("train.py", "x");
  EXPECT_THAT(Error(),
              AllOf(HasSubstr("has 2 files and folders with 300.0 MiB; at most 10000 with 256.0"),
                    HasSubstr("The largest: weights.pt (300.0 MiB), train.py (1 bytes)"),
                    HasSubstr("/.musterignore")));
  std::filesystem::remove(large);
  for (int i = 0; i < 10000; ++i) folder_.Write(absl::StrCat(i), "");
  EXPECT_THAT(Error(), HasSubstr("has 10001 files and folders"));
}

TEST_F(PackFolderTest, WhatIsNoFolderIsRefused) {
  EXPECT_EQ(PackFolder(folder_.path() + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(PackFolder(folder_.Write("file", "")).status().code(),
            absl::StatusCode::kInvalidArgument);
  folder_.Write(".musterignore", "!file\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr("/.musterignore:1: "), Not(HasSubstr("link"))));
}

}  // namespace
}  // namespace muster
