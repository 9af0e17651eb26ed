#include "client/chaos/faults/slowed_worker.h"

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

TEST(SlowedWorkerTest, TasksRunInOneTurnOfFourAndTheDaemonAlways) {
  const auto daemon = Spawn({.command = {"/bin/sh", "-c", "sleep 1001 & wait"},
                             .output_file = ::testing::TempDir() + "/slowed"});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  std::vector<pid_t> tasks;
  while (tasks.empty()) tasks = ProcessTree()[*daemon];
  {
    SlowedWorker slowed(*daemon);
    for (const bool stopped : {false, true, true, true, false, true}) {
      slowed.Turn();
      AwaitStopped(tasks[0], stopped);
      EXPECT_NE(StateOf(*daemon), 'T');
    }
  }
  AwaitStopped(tasks[0], false);
  kill(tasks[0], SIGKILL);
  kill(*daemon, SIGKILL);
  waitpid(*daemon, nullptr, 0);
}

}  // namespace
}  // namespace muster
