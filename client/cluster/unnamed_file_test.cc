#include "client/cluster/unnamed_file.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "client/cluster/spawn.h"
#include "common/files/bytes_of_file.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(UnnamedFileTest, IsReadByItsPathAndLeavesNothing) {
  std::string path;
  {
    const auto file = UnnamedFile::Create("the weights");
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write("some ").ok());
    ASSERT_TRUE((*file)->Write("bytes").ok());
    path = (*file)->path();
    EXPECT_EQ(BytesOfFile(path), "some bytes");
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::read_symlink(path)));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ExecTest, AProgramThatTakesThePlaceInheritsTheFile) {
  const auto file = UnnamedFile::Create("the weights");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Write("bytes").ok());
  const pid_t child = fork();
  if (child == 0) {
    Exec({"/bin/sh", "-c", "test \"$(cat " + (*file)->path() + ")\" = bytes"}).IgnoreError();
    _exit(9);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ExecTest, AMissingProgramIsNamed) {
  EXPECT_NE(Exec({"/no/such/program"}).message().find("/no/such/program"), absl::string_view::npos);
}

}  // namespace
}  // namespace muster
