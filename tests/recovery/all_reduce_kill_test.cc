// `kill -9` in the middle of a job that trains by all-reduce: a lost task's slot is filled again
// while the other tasks keep their processes, and the job ends with exactly the weights of a run
// that nothing disturbed.

#include <signal.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

constexpr uint64_t kSteps = 20000;
// Long enough that no daemon loses it on a busy machine: that would be a second fault. What dies
// here is noticed otherwise.
constexpr absl::Duration kLease = absl::Seconds(6);
// Where the kill comes.
constexpr uint64_t kKillAt = 1500;

v1::JobSpec Job(v1::UpdateSpec::Road sparse) {
  v1::JobSpec spec = SmallJob();
  spec.set_workers(3);
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(sparse);
  spec.mutable_optimizer()->set_name("adam");
  spec.mutable_optimizer()->set_learning_rate(0.003f);
  spec.mutable_stop()->set_steps(kSteps);
  spec.mutable_checkpoint()->set_every_steps(5000);
  spec.mutable_evaluation()->set_every_steps(0);
  return spec;
}

// Of all tasks; a task that comes in another's place has a higher one.
uint64_t Incarnations(const v1::JobStatus& status) {
  uint64_t sum = 0;
  for (const v1::TaskStatus& task : status.tasks()) sum += task.incarnation();
  return sum;
}

struct Disturbed {
  ExportedTensors weights;
  v1::JobStatus status;
  // The tasks' processes on the workers that were left alone, before and after.
  std::vector<pid_t> before, after;
  absl::Duration outage;
};

// Trains the job; with a victim ("task" or a daemon's name), kills it in the middle.
Disturbed Train(const v1::JobSpec& spec, const std::string& victim) {
  Disturbed result;
  auto started = ProcessCluster::Start({.servers = 1, .workers = 3, .lease = kLease});
  EXPECT_TRUE(started.ok()) << started.status();
  if (!started.ok()) return result;
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(spec);
  EXPECT_TRUE(id.ok()) << id.status();
  if (!id.ok()) return result;
  if (!victim.empty()) {
    const auto running = cluster.Await(
        *id, [](const v1::JobStatus& status) { return status.progress().step() >= kKillAt; });
    EXPECT_TRUE(running.ok()) << running.status() << cluster.Diagnose(*id);
    if (!running.ok()) return result;
    EXPECT_LT(running->progress().step(), spec.stop().steps())
        << "the job was over before the kill";
    const auto others = [&] {
      std::vector<pid_t> pids = cluster.ChildrenOf("worker-1");
      for (pid_t pid : cluster.ChildrenOf("worker-2")) pids.push_back(pid);
      return pids;
    };
    result.before = others();
    const uint64_t reached = running->progress().step();
    const absl::Time killed = absl::Now();
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
    const uint64_t incarnations = Incarnations(*running);
    const bool loses_a_task = victim != "coordinator";
    const auto resumed = cluster.Await(*id, [&](const v1::JobStatus& status) {
      const bool noticed = !loses_a_task || Incarnations(status) > incarnations;
      return (noticed && status.progress().step() > reached + 50) || status.finished_unix_ms() > 0;
    });
    EXPECT_TRUE(resumed.ok()) << resumed.status() << cluster.Diagnose(*id);
    result.outage = absl::Now() - killed;
    result.after = others();
  }
  const auto status = cluster.AwaitEnd(*id);
  EXPECT_TRUE(status.ok()) << status.status() << cluster.Diagnose(*id);
  if (!status.ok()) return result;
  EXPECT_EQ(status->state(), v1::SUCCEEDED) << status->message() << "\n" << cluster.Diagnose(*id);
  EXPECT_EQ(status->progress().step(), spec.stop().steps());
  result.status = *status;
  const auto weights = cluster.Export(*id);
  EXPECT_TRUE(weights.ok()) << weights.status();
  if (weights.ok()) result.weights = *weights;
  return result;
}

class AllReduceKillTest : public ::testing::TestWithParam<const char*> {
 protected:
  // The same for all victims.
  static const ExportedTensors& Undisturbed() {
    static const auto& weights =
        *new ExportedTensors(Train(Job(v1::UpdateSpec::ALL_REDUCE), "").weights);
    return weights;
  }
};

TEST_P(AllReduceKillTest, JobEndsWithTheSameBytes) {
  ASSERT_FALSE(Undisturbed().empty());
  const Disturbed run = Train(Job(v1::UpdateSpec::ALL_REDUCE), GetParam());
  EXPECT_TRUE(run.weights == Undisturbed());
  EXPECT_EQ(run.before, run.after) << "the other tasks were restarted";
  EXPECT_EQ(run.status.generation(), 1u);
  EXPECT_LT(run.outage, absl::Seconds(10));
}

INSTANTIATE_TEST_SUITE_P(Victims, AllReduceKillTest,
                         ::testing::Values("task", "worker-0", "coordinator"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(HybridKillTest, ALostTaskTakesTheJobBackToItsLastCut) {
  v1::JobSpec spec = Job(v1::UpdateSpec::PARAMETER_SERVER);
  // Rows on the server, dense layers in the workers.
  auto& model = *spec.mutable_model()->mutable_ngram();
  model.set_orders(2);
  model.set_embedding_dim(4);
  model.set_hidden(16);
  spec.mutable_data()->mutable_text()->set_path("/usr/share/common-licenses/Apache-2.0");
  spec.mutable_stop()->set_steps(kSteps / 4);
  spec.mutable_checkpoint()->set_every_steps(kSteps / 20);
  const Disturbed calm = Train(spec, "");
  const Disturbed run = Train(spec, "task");
  ASSERT_FALSE(calm.weights.empty());
  EXPECT_TRUE(run.weights == calm.weights);
  EXPECT_GE(run.status.generation(), 2u);
  EXPECT_LT(run.outage, absl::Seconds(10));
}

TEST(ElasticTest, GoesOnSmallerWithTheSameBatch) {
  auto started = ProcessCluster::Start({.servers = 0, .workers = 3, .lease = kLease});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  v1::JobSpec spec = Job(v1::UpdateSpec::ALL_REDUCE);
  spec.set_min_workers(2);
  const auto id = cluster.Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = cluster.Await(
      *id, [](const v1::JobStatus& status) { return status.progress().step() >= kKillAt; });
  ASSERT_TRUE(running.ok()) << running.status() << cluster.Diagnose(*id);
  cluster.Kill("worker-2", SIGKILL);
  const auto status = cluster.AwaitEnd(*id);
  ASSERT_TRUE(status.ok()) << status.status() << cluster.Diagnose(*id);
  EXPECT_EQ(status->state(), v1::SUCCEEDED) << status->message() << "\n" << cluster.Diagnose(*id);
  EXPECT_EQ(status->progress().step(), kSteps);
}

}  // namespace
}  // namespace muster
