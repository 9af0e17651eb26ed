#include "common/files/text_files.h"

#include <filesystem>
#include <string>

#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(TextFilesTest, AFileStandsForItself) {
  const TempFolder folder;
  const auto files = OpenTextFiles(folder.Write("one", "text"));
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 1u);
  EXPECT_EQ((*files)[0].bytes(), "text");
}

TEST(TextFilesTest, AFolderIsItsFilesInNameOrderEachContentOnce) {
  const TempFolder folder;
  folder.Write("b", "second");
  folder.Write("a", "first");
  folder.Write("c", "first");
  folder.Write("d", "");
  std::filesystem::create_directory(folder.path() + "/sub");
  folder.Write("sub/e", "not searched");
  const auto files = OpenTextFiles(folder.path());
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].bytes(), "first");
  EXPECT_EQ((*files)[1].bytes(), "second");
}

TEST(TextFilesTest, SaysWhatIsMissing) {
  const TempFolder folder;
  EXPECT_EQ(OpenTextFiles(folder.path() + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(OpenTextFiles(folder.path()).status().message()),
              HasSubstr("no regular file with content"));
  const std::string empty = folder.Write("empty", "");
  EXPECT_THAT(std::string(OpenTextFiles(empty).status().message()), HasSubstr(empty));
  std::filesystem::create_symlink("nowhere", folder.path() + "/link");
  EXPECT_EQ(OpenTextFiles(folder.path()).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster
