#include "client/cluster/spawn.h"

#include <sys/wait.h>

#include <fstream>

#include "client/cluster/unnamed_file.h"
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

TEST(RunProgramTest, ReturnsTheEndAndWhatWasWritten) {
  const auto end = RunProgram({"/bin/sh", "-c", "echo out; echo err >&2; exit 7"});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->exit_code, 7);
  EXPECT_EQ(end->output, "out\nerr\n");
  const auto killed = RunProgram({"/bin/sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(killed.ok()) << killed.status();
  EXPECT_EQ(killed->exit_code, 128 + 9);
  EXPECT_EQ(killed->output, "");
  EXPECT_TRUE(absl::IsNotFound(RunProgram({"/no/such/program"}).status()));
}

TEST(RunProgramTest, TheProgramReadsUnnamedFiles) {
  const auto file = UnnamedFile::Create("words");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Write("hello").ok());
  const auto end = RunProgram({"/bin/cat", (*file)->path()});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->output, "hello");
}

}  // namespace
}  // namespace muster
