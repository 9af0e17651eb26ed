// Jobs that do not wait for their slowest workers: one stands still, others and servers die, and
// the job goes on.
#include <signal.h>

#include <ostream>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

struct BackupCase {
  const char* name;
  v1::UpdateSpec::Durability durability;
  // The daemon that dies, or "task", the process of slot 0; empty: none.
  const char* victim;

  friend std::ostream& operator<<(std::ostream& out, const BackupCase& param) {
    return out << param.name;
  }
};

v1::JobSpec BackedUpJob(v1::UpdateSpec::Durability durability) {
  v1::JobSpec spec = SmallJob();
  spec.set_workers(3);
  spec.mutable_update()->set_deterministic(false);
  spec.mutable_update()->set_backup_workers(1);
  spec.mutable_update()->set_durability(durability);
  spec.mutable_clipping()->set_by_global_norm(1);
  return Endless(std::move(spec), 50);
}

class BackupWorkersKillTest : public ::testing::TestWithParam<BackupCase> {};

TEST_P(BackupWorkersKillTest, TheJobGoesOnBesideAWorkerThatStandsStill) {
  const BackupCase& param = GetParam();
  auto started = ProcessCluster::Start({.workers = 3});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(BackedUpJob(param.durability));
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = AwaitRunning(cluster, *id);
  ASSERT_TRUE(running.ok()) << running.status();
  const auto process_of = [&](int slot) {
    const auto children = cluster.ChildrenOf(running->tasks(slot).worker_id());
    return children.size() == 1 ? children[0] : pid_t{-1};
  };
  const pid_t frozen = process_of(2);
  ASSERT_GT(frozen, 0);
  ASSERT_EQ(kill(frozen, SIGSTOP), 0);

  const std::string victim = param.victim;
  if (victim == "task") {
    const pid_t task = process_of(0);
    ASSERT_GT(task, 0);
    ASSERT_EQ(kill(task, SIGKILL), 0);
  } else if (!victim.empty()) {
    cluster.Kill(victim, SIGKILL);
    ASSERT_TRUE(cluster.Restart(victim).ok());
  }
  const auto trained = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(trained.ok()) << trained.status() << "\n" << cluster.Diagnose(*id);
  // It is gone if the job went back, or has found out that it stood still.
  kill(frozen, SIGCONT);
  const auto dropped =
      cluster.Await(*id, [](const v1::JobStatus& status) { return status.dropped_examples() > 0; });
  ASSERT_TRUE(dropped.ok()) << dropped.status() << "\n" << cluster.Diagnose(*id);
  const auto later = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(later.ok()) << later.status() << "\n" << cluster.Diagnose(*id);
}

INSTANTIATE_TEST_SUITE_P(
    Victims, BackupWorkersKillTest,
    ::testing::Values(BackupCase{"Nobody", v1::UpdateSpec::EVERY_PUSH, ""},
                      BackupCase{"TaskEveryPush", v1::UpdateSpec::EVERY_PUSH, "task"},
                      BackupCase{"ServerEveryPush", v1::UpdateSpec::EVERY_PUSH, "server-0"},
                      BackupCase{"ServerCheckpoint", v1::UpdateSpec::CHECKPOINT, "server-0"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster
