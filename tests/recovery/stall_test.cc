// A task that is stopped, and so neither dies nor loses its daemon's lease, in the middle of a job:
// the others are not kept waiting for ever, and the job goes on with exactly the weights of a run
// that nothing disturbed.

#include <signal.h>

#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

// Long enough for a task to start on a busy machine while the others wait for it.
constexpr char kStallTimeout[] = "--stall-timeout-ms=5000";

v1::JobSpec Job(v1::UpdateSpec::Road road) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_dense(road);
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_optimizer()->set_name("adam");
  spec.mutable_optimizer()->set_learning_rate(0.003f);
  // Without servers steps are much faster.
  return Endless(std::move(spec), road == v1::UpdateSpec::ALL_REDUCE ? 500 : 50);
}

class StallTest : public ::testing::TestWithParam<v1::UpdateSpec::Road> {};

TEST_P(StallTest, AStoppedTaskIsReplacedAndNothingIsLost) {
  auto started = ProcessCluster::Start({.servers = 1, .coordinator_arguments = {kStallTimeout}});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(Job(GetParam()));
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = AwaitRunning(cluster, *id);
  ASSERT_TRUE(running.ok()) << running.status();
  const std::vector<pid_t> tasks = cluster.ChildrenOf("worker-1");
  ASSERT_EQ(tasks.size(), 1u);
  kill(tasks[0], SIGSTOP);
  const auto replaced = cluster.Await(*id, [](const v1::JobStatus& status) {
    for (const v1::TaskStatus& task : status.tasks()) {
      if (task.incarnation() > 1) return true;
    }
    return false;
  });
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  const auto trained = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_EQ(trained->generation(), 1u);
  const auto weights = EndAndTrainUndisturbed(cluster, *id);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE(weights->disturbed == weights->undisturbed) << cluster.Diagnose(*id);
}

INSTANTIATE_TEST_SUITE_P(Roads, StallTest,
                         ::testing::Values(v1::UpdateSpec::PARAMETER_SERVER,
                                           v1::UpdateSpec::ALL_REDUCE),
                         [](const auto& info) {
                           return info.param == v1::UpdateSpec::ALL_REDUCE ? "AllReduce"
                                                                           : "ParameterServer";
                         });

}  // namespace
}  // namespace muster
