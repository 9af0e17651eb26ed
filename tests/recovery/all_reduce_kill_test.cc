// `kill -9` in the middle of a job that trains in rounds: a lost task's slot is filled again while
// the other tasks keep their processes, and the job goes on with exactly the weights of a run that
// nothing disturbed.

#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"
#include "tests/recovery/dying_job.h"
#include "tests/recovery/no_lease_for_testing.h"

namespace muster {
namespace {

constexpr uint64_t kCheckpointSteps = 500;

v1::JobSpec RoundsJob(v1::UpdateSpec::Road sparse) {
  v1::JobSpec spec = SmallJob();
  spec.set_workers(3);
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(sparse);
  spec.mutable_optimizer()->set_name("adam");
  spec.mutable_optimizer()->set_learning_rate(0.003f);
  return Endless(std::move(spec), kCheckpointSteps);
}

struct Disturbed {
  Weights weights;
  // When it had gone on after the loss.
  v1::JobStatus status;
  // The tasks' processes on the workers that were left alone, before and after.
  std::vector<pid_t> before, after;
};

// Trains the job, kills the victim ("task" or a daemon's name) in the middle and has the job go on.
Disturbed Disturb(const v1::JobSpec& spec, const std::string& victim) {
  Disturbed result;
  auto started = ProcessCluster::Start({.servers = 1, .workers = 3, .lease = kNoLease});
  EXPECT_TRUE(started.ok()) << started.status();
  if (!started.ok()) return result;
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(spec);
  EXPECT_TRUE(id.ok()) << id.status();
  if (!id.ok()) return result;
  const auto running = AwaitRunning(cluster, *id);
  EXPECT_TRUE(running.ok()) << running.status();
  if (!running.ok()) return result;
  const auto others = [&] {
    std::vector<pid_t> pids = cluster.ChildrenOf("worker-1");
    for (pid_t pid : cluster.ChildrenOf("worker-2")) pids.push_back(pid);
    return pids;
  };
  result.before = others();
  if (victim == "task") {
    const auto tasks = cluster.ChildrenOf("worker-0");
    EXPECT_EQ(tasks.size(), 1u);
    if (tasks.size() != 1) return result;
    kill(tasks[0], SIGKILL);
  } else {
    cluster.Kill(victim, SIGKILL);
    EXPECT_TRUE(cluster.Restart(victim).ok());
  }
  // Steps that were made before the loss may be told of after it.
  const bool loses_a_task = victim != "coordinator" && victim != "server-0";
  const auto noticed = cluster.Await(*id, [&](const v1::JobStatus& status) {
    return !loses_a_task || Incarnations(status) > Incarnations(*running);
  });
  EXPECT_TRUE(noticed.ok()) << noticed.status();
  const auto trained = AwaitCheckpointSince(cluster, *id);
  EXPECT_TRUE(trained.ok()) << trained.status();
  if (!trained.ok()) return result;
  result.status = *trained;
  result.after = others();
  auto weights = EndAndTrainUndisturbed(cluster, *id);
  EXPECT_TRUE(weights.ok()) << weights.status() << cluster.Diagnose(*id);
  if (weights.ok()) result.weights = *std::move(weights);
  EXPECT_FALSE(result.weights.undisturbed.empty());
  return result;
}

class AllReduceKillTest : public ::testing::TestWithParam<const char*> {};

TEST_P(AllReduceKillTest, JobGoesOnWithTheSameBytes) {
  const Disturbed run = Disturb(RoundsJob(v1::UpdateSpec::ALL_REDUCE), GetParam());
  EXPECT_TRUE(run.weights.disturbed == run.weights.undisturbed);
  EXPECT_EQ(run.before, run.after) << "the other tasks were restarted";
  EXPECT_EQ(run.status.generation(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Victims, AllReduceKillTest,
                         ::testing::Values("task", "worker-0", "coordinator"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

// The tasks compute one model together, and the server has its parameters.
class TensorServersKillTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TensorServersKillTest, JobGoesOnWithTheSameBytes) {
  v1::JobSpec spec = RoundsJob(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  spec.mutable_parallelism()->set_tensor(3);
  spec.mutable_model()->mutable_mlp()->clear_hidden();
  spec.mutable_model()->mutable_mlp()->add_hidden(12);
  spec.mutable_checkpoint()->set_every_steps(kCheckpointSteps / 5);
  const Disturbed run = Disturb(spec, GetParam());
  EXPECT_TRUE(run.weights.disturbed == run.weights.undisturbed);
  EXPECT_EQ(run.before, run.after) << "the other tasks were restarted";
  EXPECT_EQ(run.status.generation(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Victims, TensorServersKillTest,
                         ::testing::Values("task", "server-0", "coordinator"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(HybridKillTest, ALostTaskTakesTheJobBackToItsLastCut) {
  v1::JobSpec spec = RoundsJob(v1::UpdateSpec::PARAMETER_SERVER);
  // Rows on the server, dense layers in the workers.
  auto& model = *spec.mutable_model()->mutable_ngram();
  model.set_orders(2);
  model.set_embedding_dim(4);
  model.set_hidden(16);
  spec.mutable_data()->mutable_text()->set_path("/usr/share/common-licenses/Apache-2.0");
  spec.mutable_checkpoint()->set_every_steps(kCheckpointSteps / 5);
  const Disturbed run = Disturb(spec, "task");
  EXPECT_TRUE(run.weights.disturbed == run.weights.undisturbed);
  EXPECT_GE(run.status.generation(), 2u);
}

TEST(ElasticTest, GoesOnSmallerWithTheSameBatch) {
  auto started = ProcessCluster::Start(
      {.servers = 0, .workers = 3, .coordinator_arguments = {"--elastic-wait-ms=500"}});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  v1::JobSpec spec = RoundsJob(v1::UpdateSpec::ALL_REDUCE);
  spec.set_min_workers(2);
  const auto id = cluster.Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = AwaitRunning(cluster, *id);
  ASSERT_TRUE(running.ok()) << running.status();
  cluster.Kill("worker-2", SIGKILL);
  const auto trained = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(trained.ok()) << trained.status();
}

}  // namespace
}  // namespace muster
