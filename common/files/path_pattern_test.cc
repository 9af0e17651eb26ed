#include "common/files/path_pattern.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PathPatternTest : public ::testing::Test {
 protected:
  PathPatternTest() {
    for (const char* folder : {"a", "b", "b/deep"}) {
      std::filesystem::create_directory(folder_.path() + "/" + folder);
    }
    for (const char* file : {"part-2.csv", "part-10.csv", "part-1.csv", ".hidden.csv", "other.txt",
                             "a/x.csv", "b/x.csv", "b/y.csv", "b/deep/x.csv"}) {
      folder_.Write(file, "1");
    }
  }

  // The files that a pattern in the folder stands for, without the folder; or the error's message.
  std::vector<std::string> Files(const std::string& pattern) {
    const auto files = FilesOfPattern(absl::StrCat(folder_.path(), "/", pattern));
    if (!files.ok()) return {std::string(files.status().message())};
    std::vector<std::string> names;
    for (const std::string& file : *files) names.push_back(file.substr(folder_.path().size() + 1));
    return names;
  }

  const TempFolder folder_;
};

TEST_F(PathPatternTest, APlainPathStandsForItselfWhateverIsThere) {
  EXPECT_THAT(Files("absent.csv"), ElementsAre("absent.csv"));
  EXPECT_THAT(Files("a"), ElementsAre("a"));
}

TEST_F(PathPatternTest, AFileOfThisVeryNameIsMeant) {
  folder_.Write("odd[1]{2}*.csv", "1");
  EXPECT_THAT(Files("odd[1]{2}*.csv"), ElementsAre("odd[1]{2}*.csv"));
}

TEST_F(PathPatternTest, WildcardsStandForNamesInNameOrder) {
  EXPECT_THAT(Files("part-*.csv"), ElementsAre("part-1.csv", "part-10.csv", "part-2.csv"));
  EXPECT_THAT(Files("part-?.csv"), ElementsAre("part-1.csv", "part-2.csv"));
  EXPECT_THAT(Files("part-[!1].csv"), ElementsAre("part-2.csv"));
  EXPECT_THAT(Files("part-[0-1]*"), ElementsAre("part-1.csv", "part-10.csv"));
  EXPECT_THAT(Files("*t*.*t"), ElementsAre("other.txt"));
  // Neither folders nor hidden files.
  EXPECT_THAT(Files("*"), ElementsAre("other.txt", "part-1.csv", "part-10.csv", "part-2.csv"));
  EXPECT_THAT(Files(".h*"), ElementsAre(".hidden.csv"));
  EXPECT_THAT(Files("*/x.csv"), ElementsAre("a/x.csv", "b/x.csv"));
  EXPECT_THAT(Files("*/*/*.csv"), ElementsAre("b/deep/x.csv"));
}

TEST_F(PathPatternTest, BracesStandForEachOfTheirParts) {
  EXPECT_THAT(Files("{b,a}/x.csv"), ElementsAre("a/x.csv", "b/x.csv"));
  EXPECT_THAT(Files("{b/{x,y},part-1}.csv"), ElementsAre("b/x.csv", "b/y.csv", "part-1.csv"));
  EXPECT_THAT(Files("{part-1,part-*}.csv"), ElementsAre("part-1.csv", "part-10.csv", "part-2.csv"));
  // Named as it is, so that whoever opens it finds it missing.
  EXPECT_THAT(Files("{part-1,absent}.csv"), ElementsAre("absent.csv", "part-1.csv"));
}

TEST_F(PathPatternTest, ALinkToNowhereIsKept) {
  std::filesystem::create_symlink("nowhere", folder_.path() + "/part-3.csv");
  EXPECT_THAT(Files("part-[23].csv"), ElementsAre("part-2.csv", "part-3.csv"));
}

TEST_F(PathPatternTest, RefusesWhatStandsForNothingOrTooMuch) {
  EXPECT_THAT(Files("*.parquet"), ElementsAre(HasSubstr("No file fits the pattern")));
  EXPECT_EQ(FilesOfPattern(folder_.path() + "/absent/*").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(Files("{a,b/x.csv"), ElementsAre(HasSubstr("does not close")));
  std::string many;
  for (int i = 0; i < 11; ++i) many += "{a,b}";
  EXPECT_THAT(Files(many), ElementsAre(HasSubstr("more than 1024 alternatives")));
}

// Steps would double with each star if every way to share the name among them were tried.
TEST_F(PathPatternTest, ManyStarsTakeNoTime) {
  folder_.Write(std::string(200, 'a'), "1");
  std::string stars;
  for (int i = 0; i < 100; ++i) stars += "*a";
  EXPECT_THAT(Files(stars + "b"), ElementsAre(HasSubstr("No file fits")));
}

// Last: the process stays confined.
TEST_F(PathPatternTest, ZListsNoFolderOutsideOfTheRoots) {
  ConfineData(*FileRoots::Create({folder_.path() + "/a"}));
  EXPECT_THAT(Files("a/*.csv"), ElementsAre("a/x.csv"));
  for (const char* pattern : {"b/*.csv", "*/x.csv", "a/../b/*", "a/{x,/../../b/*}.csv"}) {
    const auto files = FilesOfPattern(absl::StrCat(folder_.path(), "/", pattern));
    EXPECT_EQ(files.status().code(), absl::StatusCode::kPermissionDenied) << pattern;
  }
}

}  // namespace
}  // namespace muster
