#include "client/cluster/spawn.h"

#include <sys/wait.h>

#include <fstream>

#include "common/files/bytes_of_file.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(SpawnTest, AppendsOutputAndReportsExit) {
  const std::string out = ::testing::TempDir() + "/spawn_out";
  std::ofstream(out) << "before\n";
  const auto pid =
      Spawn({.command = {"/bin/sh", "-c", "echo out; echo err >&2; exit 7"}, .output_file = out});
  ASSERT_TRUE(pid.ok()) << pid.status();
  int status = 0;
  ASSERT_EQ(waitpid(*pid, &status, 0), *pid);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(BytesOfFile(out), "before\nout\nerr\n");
}

TEST(SpawnTest, MissingProgramsAreNamed) {
  const auto pid = Spawn({.command = {"/no/such/program"}, .output_file = "/dev/null"});
  EXPECT_TRUE(absl::IsNotFound(pid.status()));
  const auto program = FindProgram("muster-nothing");
  EXPECT_TRUE(absl::IsNotFound(program.status()));
  EXPECT_NE(program.status().message().find("muster-nothing"), absl::string_view::npos);
}

}  // namespace
}  // namespace muster
