#include "common/files/output_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class OutputFileTest : public ::testing::Test {
 protected:
  std::string At(const std::string& name) const { return folder_.path() + "/" + name; }

  const TempFolder folder_;
};

TEST_F(OutputFileTest, IsThePathWhereThereIsAFileOrNothing) {
  EXPECT_EQ(OutputFile(At("new")).value(), At("new"));
  std::ofstream(At("old")) << "x";
  EXPECT_EQ(OutputFile(At("old")).value(), At("old"));
  EXPECT_EQ(OutputFile("relative").value(), "relative");
}

TEST_F(OutputFileTest, FollowsLinks) {
  std::filesystem::create_symlink("target", At("link"));
  EXPECT_EQ(OutputFile(At("link")).value(), At("target")) << "which is not there yet";
  std::filesystem::create_symlink(At("link"), At("second"));
  EXPECT_EQ(OutputFile(At("second")).value(), At("target"));
  std::filesystem::create_symlink("circle", At("circle"));
  EXPECT_THAT(std::string(OutputFile(At("circle")).status().message()), HasSubstr("circle"));
}

TEST_F(OutputFileTest, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(mkfifo(At("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", At("link"));
  for (const std::string& path : {At("pipe"), At("link"), folder_.path()}) {
    const absl::Status status = OutputFile(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(At("pipe")));
}

}  // namespace
}  // namespace muster
