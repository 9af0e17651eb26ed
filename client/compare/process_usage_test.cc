#include "client/compare/process_usage.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace muster {
namespace {

TEST(ProcessUsageTest, FindsItsChildrenByProgram) {
  int in[2], out[2];
  ASSERT_EQ(pipe(in), 0);
  ASSERT_EQ(pipe(out), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_addclose(&actions, in[1]);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_addclose(&actions, out[0]);
  std::string command = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo ready; read x";
  std::string shell = "/bin/sh", flag = "-c";
  char* argv[] = {shell.data(), flag.data(), command.data(), nullptr};
  pid_t pid = 0;
  ASSERT_EQ(posix_spawn(&pid, "/bin/sh", &actions, nullptr, argv, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(in[0]);
  char byte;
  ASSERT_EQ(read(out[0], &byte, 1), 1);

  char program[256] = {};
  ASSERT_GT(readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), program, 255), 0);
  const std::string name = std::string(program).substr(std::string(program).rfind('/') + 1);
  const std::vector<ChildUsage> children = UsageOfChildren(getpid(), name);
  ASSERT_EQ(children.size(), 1u);
  EXPECT_EQ(children[0].pid, pid);
  EXPECT_GT(children[0].cpu_seconds, 0);
  EXPECT_GT(children[0].peak_bytes, 100'000u);
  EXPECT_TRUE(UsageOfChildren(getpid(), "no-such-program").empty());

  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  close(out[0]);
  close(in[1]);
  EXPECT_TRUE(UsageOfChildren(getpid(), name).empty());
}

TEST(ProcessUsageTest, ProcessorsAreLimited) {
  const int all = AvailableProcessors();
  ASSERT_GE(all, 1);
  EXPECT_FALSE(LimitProcessors(all + 1));
  EXPECT_FALSE(LimitProcessors(0));
  EXPECT_EQ(AvailableProcessors(), all);
  EXPECT_TRUE(LimitProcessors(1));
  EXPECT_EQ(AvailableProcessors(), 1);
}

}  // namespace
}  // namespace muster
