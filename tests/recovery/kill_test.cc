// `kill -9` of each kind of daemon in the middle of a job, under both durabilities: the job goes on
// with exactly the weights of a run that nothing disturbed. Deterministic jobs make that a
// comparison of bytes.

#include <signal.h>

#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "common/history/series.h"
#include "common/history/series_proto.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"
#include "tests/recovery/process_state_for_testing.h"

namespace muster {
namespace {

struct KillCase {
  const char* name;
  v1::UpdateSpec::Durability durability;
  // The daemon that dies; "task" is the process of slot 0.
  const char* victim;

  friend std::ostream& operator<<(std::ostream& out, const KillCase& param) {
    return out << param.name;
  }
};

v1::JobSpec KilledJob(v1::UpdateSpec::Durability durability) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_durability(durability);
  spec.mutable_optimizer()->set_name("adam");
  spec.mutable_optimizer()->set_learning_rate(0.003f);
  return Endless(std::move(spec), 50);
}

class KillTest : public ::testing::TestWithParam<KillCase> {};

TEST_P(KillTest, JobGoesOnWithTheSameBytes) {
  const KillCase& param = GetParam();
  auto started = ProcessCluster::Start({});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(KilledJob(param.durability));
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = AwaitRunning(cluster, *id);
  ASSERT_TRUE(running.ok()) << running.status();

  const std::string victim = param.victim;
  if (victim == "task") {
    const auto tasks = cluster.ChildrenOf("worker-0");
    ASSERT_EQ(tasks.size(), 1u);
    kill(tasks[0], SIGKILL);
  } else {
    cluster.Kill(victim, SIGKILL);
    ASSERT_TRUE(cluster.Restart(victim).ok());
  }
  // Without the victim no step is made, or no checkpoint committed.
  const auto trained = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(trained.ok()) << trained.status() << "\n" << cluster.Diagnose(*id);
  const auto weights = EndAndTrainUndisturbed(cluster, *id);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE(weights->disturbed == weights->undisturbed)
      << "the weights at clock " << weights->clock << " differ from an undisturbed run's\n"
      << cluster.Diagnose(*id);
}

INSTANTIATE_TEST_SUITE_P(
    Victims, KillTest,
    ::testing::Values(KillCase{"TaskCheckpoint", v1::UpdateSpec::CHECKPOINT, "task"},
                      KillCase{"WorkerCheckpoint", v1::UpdateSpec::CHECKPOINT, "worker-0"},
                      KillCase{"ServerCheckpoint", v1::UpdateSpec::CHECKPOINT, "server-1"},
                      KillCase{"CoordinatorCheckpoint", v1::UpdateSpec::CHECKPOINT, "coordinator"},
                      KillCase{"TaskEveryPush", v1::UpdateSpec::EVERY_PUSH, "task"},
                      KillCase{"WorkerEveryPush", v1::UpdateSpec::EVERY_PUSH, "worker-1"},
                      KillCase{"ServerEveryPush", v1::UpdateSpec::EVERY_PUSH, "server-0"},
                      KillCase{"CoordinatorEveryPush", v1::UpdateSpec::EVERY_PUSH, "coordinator"}),
    [](const auto& info) { return info.param.name; });

// Checks that no step is in two points.
void CheckNoStepTwice(const v1::MetricsChunk& history) {
  for (const v1::Series& series : history.series()) {
    uint64_t next = 0;
    for (const v1::SeriesPoint& message : series.points()) {
      const SeriesPoint point = FromProto(message);
      ASSERT_TRUE(IsSound(point)) << series.name();
      ASSERT_GE(point.first_step, next) << series.name();
      next = point.last_step + 1;
    }
  }
}

// Returns whether a history has a point, alone or joined with others.
bool Has(const v1::MetricsChunk& history, const std::string& name, const SeriesPoint& point) {
  for (const v1::Series& series : history.series()) {
    if (series.name() != name) continue;
    for (const v1::SeriesPoint& message : series.points()) {
      const SeriesPoint other = FromProto(message);
      if (other.first_step <= point.first_step && point.last_step <= other.last_step) {
        return other.min <= point.min && point.max <= other.max;
      }
    }
  }
  return false;
}

// The job trains on while the coordinator is killed at random points, also while it starts. What it
// had stored stays in the history.
TEST(HistoryKillTest, AHistorySurvivesAndShowsNoStepTwice) {
  auto started = ProcessCluster::Start({.servers = 1});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(KilledJob(v1::UpdateSpec::CHECKPOINT));
  ASSERT_TRUE(id.ok()) << id.status();
  ASSERT_TRUE(AwaitRunning(cluster, *id).ok());
  const auto kill_and_read = [&](v1::MetricsChunk& history) {
    cluster.Kill("coordinator", SIGKILL);
    ASSERT_TRUE(cluster.Restart("coordinator").ok());
    v1::ReadMetricsRequest request;
    request.set_job_id(*id);
    const absl::Status read = cluster.jobs().History(request, history);
    ASSERT_TRUE(read.ok()) << read << cluster.Diagnose(*id);
    CheckNoStepTwice(history);
  };
  std::mt19937 random(7);
  v1::MetricsChunk history;
  for (int round = 0; round < 3; ++round) {
    const auto now = cluster.Await(*id, [](const v1::JobStatus&) { return true; });
    ASSERT_TRUE(now.ok()) << now.status();
    const uint64_t until = now->progress().step() + random() % 300;
    // It may not have heard of all steps that it had told of.
    ASSERT_TRUE(cluster
                    .Await(*id,
                           [until](const v1::JobStatus& status) {
                             return status.progress().step() >= until;
                           })
                    .ok());
    ASSERT_NO_FATAL_FAILURE(kill_and_read(history));
    if (round % 2 == 0) ASSERT_NO_FATAL_FAILURE(kill_and_read(history));
  }
  // The coordinator has stored all points that are some seconds old.
  const auto before = cluster.Await(
      *id, [](const v1::JobStatus& status) { return status.progress().examples_per_second() > 0; });
  ASSERT_TRUE(before.ok()) << before.status();
  v1::ReadMetricsRequest request;
  request.set_job_id(*id);
  v1::MetricsChunk shown;
  ASSERT_TRUE(cluster.jobs().History(request, shown).ok());
  const double since = before->progress().training_seconds();
  ASSERT_TRUE(cluster
                  .Await(*id,
                         [since](const v1::JobStatus& status) {
                           return status.progress().training_seconds() > since + 7;
                         })
                  .ok());
  ASSERT_NO_FATAL_FAILURE(kill_and_read(history));
  EXPECT_TRUE(history.marks().empty());
  int points = 0;
  for (const v1::Series& series : shown.series()) {
    for (const v1::SeriesPoint& point : series.points()) {
      ++points;
      EXPECT_TRUE(Has(history, series.name(), FromProto(point)))
          << series.name() << " at " << point.last_step();
    }
  }
  EXPECT_GT(points, 0);
}

TEST(StopTest, DaemonsEndWithinFiveSecondsOfSigterm) {
  auto started = ProcessCluster::Start({});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(KilledJob(v1::UpdateSpec::CHECKPOINT));
  ASSERT_TRUE(id.ok()) << id.status();
  ASSERT_TRUE(
      cluster.Await(*id, [](const v1::JobStatus& status) { return status.progress().step() > 0; })
          .ok());
  for (const char* daemon : {"worker-0", "server-0", "coordinator", "server-1", "worker-1"}) {
    EXPECT_LT(cluster.Stop(daemon), absl::Seconds(5)) << daemon;
  }
}

TEST(StopTest, KilledWorkerDaemonTakesItsTasksAlong) {
  auto started = ProcessCluster::Start({});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(KilledJob(v1::UpdateSpec::CHECKPOINT));
  ASSERT_TRUE(id.ok()) << id.status();
  ASSERT_TRUE(
      cluster.Await(*id, [](const v1::JobStatus& status) { return status.progress().step() > 0; })
          .ok());
  const auto tasks = cluster.ChildrenOf("worker-0");
  ASSERT_EQ(tasks.size(), 1u);
  cluster.Kill("worker-0", SIGKILL);
  // The control pipe closed with the daemon; the test's own time limit ends the wait if the task
  // does not.
  while (StateOf(tasks[0]) != 'X') absl::SleepFor(absl::Milliseconds(10));
}

}  // namespace
}  // namespace muster
