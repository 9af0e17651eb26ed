#include "client/chaos/process_tree.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/spawn.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ProcessTreeTest, FindsChildrenAndNotTheDead) {
  const auto child =
      Spawn({.command = {"/bin/sleep", "1000"}, .output_file = ::testing::TempDir() + "/out"});
  ASSERT_TRUE(child.ok()) << child.status();
  auto children = ChildrenOf(getpid());
  // Until it has become the program, it has no words of its own.
  while (children.size() == 1 && children[0].command.size() != 2) children = ChildrenOf(getpid());
  ASSERT_EQ(children.size(), 1u);
  EXPECT_EQ(children[0].pid, *child);
  ASSERT_EQ(children[0].command.size(), 2u);
  EXPECT_EQ(children[0].command[1], "1000");

  kill(*child, SIGKILL);
  // Dead, and waited for by nobody yet.
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, *child, &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(ChildrenOf(getpid()).empty());
  waitpid(*child, nullptr, 0);
}

}  // namespace
}  // namespace muster
