#include "common/files/file_roots.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/files/open_regular_file.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FileRootsTest : public ::testing::TestWithParam<FileRoots::Following> {
 protected:
  FileRootsTest() {
    fs::create_directories(root() + "/folder");
    fs::create_directories(folder_.path() + "/root-beside");
    folder_.Write("secret", "outside");
    folder_.Write("root-beside/file", "outside");
    folder_.Write("root/file", "inside");
    folder_.Write("root/folder/file", "inside");
    roots_ = *FileRoots::Create({root()}, GetParam());
  }

  std::string root() const { return folder_.path() + "/root"; }
  // What is read of `path`; an error's text.
  std::string Read(const std::string& path) const {
    const auto file = OpenRegularFileWithin(roots_.get(), path);
    if (!file.ok()) return file.status().ToString();
    char text[16] = {};
    EXPECT_GE(read(file->descriptor, text, sizeof(text) - 1), 0);
    close(file->descriptor);
    return text;
  }
  void ExpectOutside(const std::string& path) const {
    for (const absl::Status& status : {roots_->Open(path, O_RDONLY).status(), roots_->Check(path),
                                       OpenRegularFileWithin(roots_.get(), path).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << path << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    }
  }

  const TempFolder folder_;
  std::shared_ptr<const FileRoots> roots_;
};

TEST_P(FileRootsTest, OpensWhatLiesWithin) {
  EXPECT_EQ(Read(root() + "/file"), "inside");
  EXPECT_EQ(Read(root() + "//folder/./file"), "inside");
  EXPECT_THAT(Read(root() + "/absent"), HasSubstr("NOT_FOUND"));
  EXPECT_THAT(Read(root()), HasSubstr("a folder"));
}

TEST_P(FileRootsTest, OpensNothingOutside) {
  ExpectOutside(folder_.path() + "/secret");
  ExpectOutside(folder_.path() + "/root-beside/file");
  ExpectOutside(folder_.path());
  ExpectOutside("/etc/passwd");
  ExpectOutside(root() + "/../secret");
  ExpectOutside(root() + "/folder/../../secret");
  ExpectOutside("file");
}

TEST_P(FileRootsTest, NoLinkLeadsOut) {
  fs::create_symlink(folder_.path() + "/secret", root() + "/link");
  fs::create_symlink("../secret", root() + "/relative");
  fs::create_directory_symlink(folder_.path(), root() + "/out");
  fs::create_directory_symlink("/proc/self/root", root() + "/magic");
  for (const char* name : {"/link", "/relative", "/out/secret", "/out/root/file", "/magic/etc"}) {
    ExpectOutside(root() + name);
  }
}

TEST_P(FileRootsTest, ChecksWhatIsNotThereByTheFolderAboveIt) {
  EXPECT_TRUE(roots_->Check(root() + "/new/folder/file").ok());
  EXPECT_TRUE(roots_->Check(root()).ok());
  fs::create_directory_symlink(folder_.path(), root() + "/out");
  ExpectOutside(root() + "/out/new");
}

INSTANTIATE_TEST_SUITE_P(Followings, FileRootsTest,
                         ::testing::Values(FileRoots::Following::kBeneath,
                                           FileRoots::Following::kWalk));

TEST(FileRootsLinksTest, LinksThatStayWithinAreFollowed) {
  const TempFolder folder;
  folder.Write("file", "x");
  fs::create_symlink("file", folder.path() + "/link");
  // As a volume of Kubernetes is laid out. Where the system has no openat2, no link is followed.
  const auto roots = FileRoots::Create({folder.path()});
  ASSERT_TRUE(roots.ok()) << roots.status();
  const auto file = (*roots)->Open(folder.path() + "/link", O_RDONLY);
  ASSERT_TRUE(file.ok()) << file.status();
  close(*file);
}

TEST(FileRootsCreateTest, NamesAFolderThatIsNone) {
  const TempFolder folder;
  for (const std::string& bad :
       {folder.path() + "/absent", std::string("relative"), folder.Write("file", "x")}) {
    const absl::Status status = FileRoots::Create({"/", bad}).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad));
  }
  EXPECT_FALSE(FileRoots::Create({}).ok());
}

// The root of the file system bounds nothing.
TEST(FileRootsCreateTest, TheWholeFileSystemIsARoot) {
  const TempFolder folder;
  const std::string path = folder.Write("file", "x");
  const auto roots = FileRoots::Create({"/"});
  ASSERT_TRUE(roots.ok()) << roots.status();
  EXPECT_TRUE((*roots)->Check(path).ok());
}

// Last: the process stays confined.
TEST(ZConfineDataTest, AllReadersAreConfined) {
  const TempFolder inside, outside;
  const std::string good = inside.Write("file", "x"), bad = outside.Write("file", "x");
  EXPECT_TRUE(CheckWithinDataRoots(bad).ok());
  ConfineData(*FileRoots::Create({inside.path()}));
  EXPECT_TRUE(OpenRegularFile(good).ok());
  EXPECT_EQ(OpenRegularFile(bad).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(CheckWithinDataRoots(good).ok());
  EXPECT_EQ(CheckWithinDataRoots(bad).code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace muster
