#include "client/chaos/faults/frozen_worker.h"

#include <signal.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "client/chaos/faults/process_state_for_testing.h"
#include "client/chaos/faults/process_tree.h"
#include "client/cluster/spawn.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Whether a child of this process, which has changed its state, was stopped or continued.
bool Stopped(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, WUNTRACED | WCONTINUED), child);
  EXPECT_TRUE(WIFSTOPPED(status) || WIFCONTINUED(status)) << status;
  return WIFSTOPPED(status);
}

TEST(FrozenWorkerTest, StopsAndContinuesADaemonAndItsTasks) {
  // A daemon with two tasks.
  const auto daemon = Spawn({.command = {"/bin/sh", "-c", "sleep 1000 & sleep 1000 & wait"},
                             .output_file = ::testing::TempDir() + "/out"});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  std::vector<pid_t> tasks;
  while (tasks.size() < 2) tasks = ProcessTree()[*daemon];
  {
    FrozenWorker frozen(*daemon);
    EXPECT_TRUE(Stopped(*daemon));
    for (const pid_t task : tasks) AwaitStopped(task, true);
    frozen.ContinueTasks();
    for (const pid_t task : tasks) AwaitStopped(task, false);
    EXPECT_EQ(StateOf(*daemon), 'T');
  }
  EXPECT_FALSE(Stopped(*daemon));
  for (const pid_t task : tasks) kill(task, SIGKILL);
  kill(*daemon, SIGKILL);
  waitpid(*daemon, nullptr, 0);
}

}  // namespace
}  // namespace muster
