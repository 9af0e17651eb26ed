#include "common/files/text_files.h"

#include <filesystem>
#include <string>
#include <vector>

#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<std::string>> Contents(const std::string& path) {
  std::vector<std::string> contents;
  const absl::Status status = ForEachTextFile(path, [&](const std::string& from, FileContent file) {
    EXPECT_EQ(FileContent::Open(from).value().bytes(), file.bytes());
    contents.emplace_back(file.bytes());
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return contents;
}

TEST(TextFilesTest, AFileStandsForItself) {
  const TempFolder folder;
  EXPECT_THAT(Contents(folder.Write("one", "text")).value(), ElementsAre("text"));
}

TEST(TextFilesTest, AFolderIsItsFilesInNameOrderEachContentOnce) {
  const TempFolder folder;
  folder.Write("b", "second");
  folder.Write("a", "first");
  folder.Write("c", "first");
  folder.Write("d", "");
  std::filesystem::create_directory(folder.path() + "/sub");
  folder.Write("sub/e", "not searched");
  EXPECT_THAT(Contents(folder.path()).value(), ElementsAre("first", "second"));
}

TEST(TextFilesTest, AFileIsOpenedWhenThoseBeforeItWereTaken) {
  const TempFolder folder;
  folder.Write("a", "first");
  folder.Write("b", "as it was");
  std::vector<std::string> contents;
  EXPECT_EQ(ForEachTextFile(folder.path(),
                            [&](const std::string&, FileContent file) {
                              contents.emplace_back(file.bytes());
                              folder.Write("b", "as it is now");
                              return absl::OkStatus();
                            }),
            absl::OkStatus());
  EXPECT_THAT(contents, ElementsAre("first", "as it is now"));
}

TEST(TextFilesTest, AnErrorEndsIt) {
  const TempFolder folder;
  folder.Write("a", "first");
  folder.Write("b", "second");
  int taken = 0;
  EXPECT_EQ(ForEachTextFile(folder.path(),
                            [&](const std::string&, FileContent) {
                              ++taken;
                              return absl::CancelledError("enough");
                            }),
            absl::CancelledError("enough"));
  EXPECT_EQ(taken, 1);
}

TEST(TextFilesTest, SaysWhatIsMissing) {
  const TempFolder folder;
  EXPECT_EQ(Contents(folder.path() + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Contents(folder.path()).status().message()),
              HasSubstr("no regular file with content"));
  const std::string empty = folder.Write("empty", "");
  EXPECT_THAT(std::string(Contents(empty).status().message()), HasSubstr(empty));
  std::filesystem::create_symlink("nowhere", folder.path() + "/link");
  EXPECT_EQ(Contents(folder.path()).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster
