#include "client/chaos/faults/process_tree.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cluster/spawn.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ProcessTreeTest, FindsChildrenAndNotTheDead) {
  const auto child =
      Spawn({.command = {"/bin/sleep", "1000"}, .output_file = ::testing::TempDir() + "/out"});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(ProcessTree()[getpid()], std::vector<pid_t>{*child});
  std::vector<std::string> command = CommandOf(*child);
  // Until it has become the program, it has no words of its own.
  while (command.size() != 2) command = CommandOf(*child);
  EXPECT_EQ(command[1], "1000");

  kill(*child, SIGKILL);
  // Dead, and waited for by nobody yet.
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, *child, &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(ProcessTree()[getpid()].empty());
  waitpid(*child, nullptr, 0);
  EXPECT_TRUE(CommandOf(*child).empty());
}

}  // namespace
}  // namespace muster
