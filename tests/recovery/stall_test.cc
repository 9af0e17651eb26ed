// A task that neither dies nor loses its daemon's lease, but does not move in the middle of a job,
// and a task or a worker that stands still: the others are not kept waiting for ever, and the job
// goes on with exactly the weights of a run that nothing disturbed.

#include <signal.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/chaos/faults/frozen_worker.h"
#include "gtest/gtest.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"
#include "tests/recovery/dying_job.h"

namespace muster {
namespace {

// Long enough for a task to start on a busy machine while the others wait for it.
constexpr char kStallTimeout[] = "--stall-timeout-ms=5000";

v1::JobSpec StalledJob(v1::UpdateSpec::Road road) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_dense(road);
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_optimizer()->set_name("adam");
  spec.mutable_optimizer()->set_learning_rate(0.003f);
  return spec;
}

// Stops the task of worker-1 in the middle of the job, which goes on with another in its place and
// with exactly the weights of an undisturbed run. Returns the job's status then.
v1::JobStatus StopATask(ProcessCluster& cluster, const v1::JobSpec& spec) {
  v1::JobStatus status;
  const auto stop = [&] {
    const auto id = cluster.Submit(spec);
    ASSERT_TRUE(id.ok()) << id.status();
    const auto running = AwaitRunning(cluster, *id);
    ASSERT_TRUE(running.ok()) << running.status() << cluster.Diagnose(*id);
    const std::vector<pid_t> tasks = cluster.ChildrenOf("worker-1");
    ASSERT_EQ(tasks.size(), 1u);
    kill(tasks[0], SIGSTOP);
    const auto replaced = cluster.Await(*id, [&](const v1::JobStatus& status) {
      return Incarnations(status) > Incarnations(*running);
    });
    ASSERT_TRUE(replaced.ok()) << replaced.status() << cluster.Diagnose(*id);
    const auto trained = AwaitCheckpointSince(cluster, *id);
    ASSERT_TRUE(trained.ok()) << trained.status() << cluster.Diagnose(*id);
    status = *trained;
    const auto weights = EndAndTrainUndisturbed(cluster, *id);
    ASSERT_TRUE(weights.ok()) << weights.status() << cluster.Diagnose(*id);
    EXPECT_FALSE(weights->undisturbed.empty());
    EXPECT_TRUE(weights->disturbed == weights->undisturbed) << cluster.Diagnose(*id);
  };
  stop();
  return status;
}

class StallTest : public ::testing::TestWithParam<v1::UpdateSpec::Road> {};

TEST_P(StallTest, AStoppedTaskIsReplacedAndNothingIsLost) {
  // A stopped task stands for one that shows signs of life and does not move.
  auto started = ProcessCluster::Start({.servers = 1,
                                        .worker_arguments = {"--task-silence-ms=0"},
                                        .coordinator_arguments = {kStallTimeout}});
  ASSERT_TRUE(started.ok()) << started.status();
  // Without servers steps are much faster.
  const uint64_t steps = GetParam() == v1::UpdateSpec::ALL_REDUCE ? 500 : 100;
  const v1::JobStatus status = StopATask(**started, Endless(StalledJob(GetParam()), steps));
  EXPECT_EQ(status.generation(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Roads, StallTest,
                         ::testing::Values(v1::UpdateSpec::PARAMETER_SERVER,
                                           v1::UpdateSpec::ALL_REDUCE),
                         [](const auto& info) {
                           return info.param == v1::UpdateSpec::ALL_REDUCE ? "AllReduce"
                                                                           : "ParameterServer";
                         });

// Its daemon finds out, long before the others have waited for too long.
TEST(StoppedTaskTest, ItsDaemonEndsItAndNothingIsLost) {
  auto started = ProcessCluster::Start({.servers = 0, .workers = 3});
  ASSERT_TRUE(started.ok()) << started.status();
  const v1::JobStatus status =
      StopATask(**started, Endless(StalledJob(v1::UpdateSpec::ALL_REDUCE), 500));
  EXPECT_NE((*started)->Diagnose(status.job_id()).find("showed no sign of life for 5s"),
            std::string::npos);
}

struct StoppedAt {
  const char* name;
  v1::UpdateSpec::Road road;
  uint32_t slot;
  const char* call;
};

class TaskStoppedAtTest : public ::testing::TestWithParam<StoppedAt> {};

// The others wait for it in a step as in a cut.
TEST_P(TaskStoppedAtTest, ItsDaemonEndsItAndNothingIsLost) {
  const v1::UpdateSpec::Road road = GetParam().road;
  v1::JobSpec spec = Endless(StalledJob(road), 100);
  const bool on_servers = road == v1::UpdateSpec::PARAMETER_SERVER;
  if (!on_servers) {
    // All ranks take part in the cut, and none has to go back.
    spec.mutable_parallelism()->mutable_zero()->set_stage(1);
    spec.mutable_parallelism()->mutable_zero()->set_redundancy(1);
  }
  DyingJob job;
  ASSERT_NO_FATAL_FAILURE(job.Start(spec, /*servers=*/on_servers ? 1 : 0));
  ASSERT_NO_FATAL_FAILURE(job.DieAt(GetParam().slot, absl::StrCat("stop ", GetParam().call)));
  job.ExpectTheSameBits();
}

INSTANTIATE_TEST_SUITE_P(
    Points, TaskStoppedAtTest,
    ::testing::Values(
        StoppedAt{"CutByAllReduce", v1::UpdateSpec::ALL_REDUCE, 1, "before copies of the cut"},
        StoppedAt{"StepOnServers", v1::UpdateSpec::PARAMETER_SERVER, 1, "before push"},
        // The first slot has the servers write.
        StoppedAt{"CutOnServers", v1::UpdateSpec::PARAMETER_SERVER, 0, "before write of the cut"}),
    [](const auto& info) { return info.param.name; });

// No connection to a frozen worker breaks: by all-reduce the others are in a call with its task.
TEST(FrozenWorkerTest, TheOthersGoOnWithoutItAndNothingIsLost) {
  auto started = ProcessCluster::Start({.servers = 0, .workers = 3});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(Endless(StalledJob(v1::UpdateSpec::ALL_REDUCE), 500));
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = AwaitRunning(cluster, *id);
  ASSERT_TRUE(running.ok()) << running.status();
  {
    const FrozenWorker frozen(cluster.pid(running->tasks(1).worker_id()));
    const auto replaced = cluster.Await(*id, [&](const v1::JobStatus& status) {
      return Incarnations(status) > Incarnations(*running);
    });
    ASSERT_TRUE(replaced.ok()) << replaced.status();
    const auto trained = AwaitCheckpointSince(cluster, *id);
    ASSERT_TRUE(trained.ok()) << trained.status();
  }
  // Now its task hears that it is none any more.
  const auto trained = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(trained.ok()) << trained.status();
  const auto weights = EndAndTrainUndisturbed(cluster, *id);
  ASSERT_TRUE(weights.ok()) << weights.status() << cluster.Diagnose(*id);
  EXPECT_TRUE(weights->disturbed == weights->undisturbed) << cluster.Diagnose(*id);
}

}  // namespace
}  // namespace muster
