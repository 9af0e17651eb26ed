#include "common/files/file_content.h"

#include <string>
#include <utility>

#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(FileContentTest, HasTheBytesWhetherCopiedOrMapped) {
  const TempFolder folder;
  const std::string bytes("a\0b\n", 4);
  const std::string path = folder.Write("file", bytes);
  for (const size_t map_from_bytes : {size_t{0}, size_t{4}, size_t{5}}) {
    auto content = FileContent::Open(path, {.map_from_bytes = map_from_bytes});
    ASSERT_TRUE(content.ok()) << content.status();
    EXPECT_EQ(content->bytes(), bytes);
    FileContent moved = *std::move(content);
    EXPECT_EQ(moved.bytes(), bytes);
    auto other = FileContent::Open(path);
    ASSERT_TRUE(other.ok()) << other.status();
    moved = *std::move(other);
    EXPECT_EQ(moved.bytes(), bytes);
  }
}

TEST(FileContentTest, ACopyOutlivesChangesOfTheFile) {
  const TempFolder folder;
  const std::string path = folder.Write("file", "before");
  const auto content = FileContent::Open(path);
  ASSERT_TRUE(content.ok()) << content.status();
  folder.Write("file", "");
  EXPECT_EQ(content->bytes(), "before");
}

TEST(FileContentTest, AMissingPathIsNotFoundByName) {
  const TempFolder folder;
  const std::string file = folder.Write("file", "x");
  for (const std::string& path : {folder.path() + "/absent", file + "/below"}) {
    const auto content = FileContent::Open(path);
    EXPECT_EQ(content.status().code(), absl::StatusCode::kNotFound) << content.status();
    EXPECT_THAT(std::string(content.status().message()), HasSubstr(path));
  }
}

TEST(FileContentTest, OnlyRegularFilesAreRead) {
  const TempFolder folder;
  for (const std::string& path : {folder.path(), std::string("/dev/null")}) {
    const auto content = FileContent::Open(path);
    EXPECT_EQ(content.status().code(), absl::StatusCode::kInvalidArgument) << content.status();
    EXPECT_THAT(std::string(content.status().message()), HasSubstr(path));
  }
  EXPECT_EQ(FileContent::Open("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FileContentTest, OpenNonEmptyRefusesAnEmptyFile) {
  const TempFolder folder;
  const std::string empty = folder.Write("empty", "");
  ASSERT_TRUE(FileContent::Open(empty).ok());
  EXPECT_EQ(FileContent::Open(empty)->bytes(), "");
  const auto content = OpenNonEmpty(empty);
  EXPECT_EQ(content.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(content.status().message()), HasSubstr(empty + "' is empty"));
  EXPECT_TRUE(OpenNonEmpty(folder.Write("full", "x")).ok());
}

}  // namespace
}  // namespace muster
