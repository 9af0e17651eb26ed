// Partitions that move between real servers while a job trains: whoever is killed with SIGKILL
// during that, the job goes on with exactly the weights of a run that nothing disturbed.

#include <signal.h>

#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

struct MoveCase {
  const char* name;
  v1::UpdateSpec::Durability durability;
  // "from", "to", "coordinator", or nobody.
  const char* victim;

  friend std::ostream& operator<<(std::ostream& out, const MoveCase& param) {
    return out << param.name;
  }
};

v1::JobSpec MovedJob(v1::UpdateSpec::Durability durability) {
  v1::JobSpec spec = SmallJob();
  spec.set_servers(2);
  spec.mutable_update()->set_durability(durability);
  spec.mutable_optimizer()->set_name("adam");
  spec.mutable_optimizer()->set_learning_rate(0.003f);
  return Endless(std::move(spec), 50);
}

std::set<std::string> Owners(const v1::JobStatus& status) {
  std::set<std::string> owners;
  for (const v1::PartitionPlacement& placement : status.partitions()) {
    owners.insert(placement.replicas(0).server_id());
  }
  return owners;
}

class MoveTest : public ::testing::TestWithParam<MoveCase> {};

TEST_P(MoveTest, ADrainedServersJobGoesOnWithTheSameBytes) {
  const MoveCase& param = GetParam();
  auto started = ProcessCluster::Start({.servers = 3});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(MovedJob(param.durability));
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = AwaitRunning(cluster, *id);
  ASSERT_TRUE(running.ok()) << running.status();
  const std::set<std::string> owners = Owners(*running);
  ASSERT_EQ(owners.size(), 2u);
  const std::string from = *owners.begin();
  std::string to;
  for (const char* server : {"server-0", "server-1", "server-2"}) {
    if (owners.count(server) == 0) to = server;
  }

  v1::DrainServerRequest drain;
  drain.set_server_id(from);
  v1::DrainServerReply reply;
  ASSERT_TRUE(cluster.jobs().DrainServer(drain, reply).ok());
  EXPECT_GT(reply.drain().partitions(), 0u);
  std::string victim = param.victim;
  if (victim == "from") victim = from;
  if (victim == "to") victim = to;
  if (!victim.empty()) {
    cluster.Kill(victim, SIGKILL);
    ASSERT_TRUE(cluster.Restart(victim).ok());
  }
  const auto moved = cluster.Await(*id, [&](const v1::JobStatus& status) {
    return status.partitions_size() > 0 && Owners(status).count(from) == 0;
  });
  ASSERT_TRUE(moved.ok()) << moved.status() << "\n" << cluster.Diagnose(*id);
  if (victim.empty()) {
    EXPECT_EQ(moved->generation(), param.durability == v1::UpdateSpec::EVERY_PUSH ? 1u : 2u);
  }

  // MoveTest compares the weights of jobs whose partitions move.
  const auto trained = AwaitCheckpointSince(cluster, *id);
  EXPECT_TRUE(trained.ok()) << trained.status() << "\n" << cluster.Diagnose(*id);
}

INSTANTIATE_TEST_SUITE_P(
    Victims, MoveTest,
    ::testing::Values(MoveCase{"EveryPush", v1::UpdateSpec::EVERY_PUSH, ""},
                      MoveCase{"OldOwnerEveryPush", v1::UpdateSpec::EVERY_PUSH, "from"},
                      MoveCase{"NewOwnerEveryPush", v1::UpdateSpec::EVERY_PUSH, "to"},
                      MoveCase{"CoordinatorEveryPush", v1::UpdateSpec::EVERY_PUSH, "coordinator"},
                      MoveCase{"Checkpoint", v1::UpdateSpec::CHECKPOINT, ""}),
    [](const auto& info) { return info.param.name; });

// Counts the partitions that a server has.
int CountOn(const std::string& server, const v1::JobStatus& status) {
  int count = 0;
  for (const v1::PartitionPlacement& placement : status.partitions()) {
    count += placement.replicas(0).server_id() == server ? 1 : 0;
  }
  return count;
}

TEST(HotPartitionTest, MovesToAServerThatHasLessToDo) {
  auto started = ProcessCluster::Start({.servers = 2});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  v1::JobSpec spec = MovedJob(v1::UpdateSpec::EVERY_PUSH);
  spec.set_servers(0);
  spec.mutable_update()->set_partitions(4);
  spec.mutable_update()->set_move_hot_partitions(true);
  // Most of a step is the servers' work.
  spec.mutable_model()->mutable_mlp()->clear_hidden();
  spec.mutable_model()->mutable_mlp()->add_hidden(20000);
  const auto id = cluster.Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = AwaitRunning(cluster, *id);
  ASSERT_TRUE(running.ok()) << running.status();

  // All partitions go to one server; then the other one, which has nothing to do, may take some.
  v1::DrainServerRequest drain;
  drain.set_server_id("server-1");
  v1::DrainServerReply reply;
  ASSERT_TRUE(cluster.jobs().DrainServer(drain, reply).ok());
  const auto drained = cluster.Await(*id, [](const v1::JobStatus& status) {
    return status.partitions_size() == 4 && CountOn("server-1", status) == 0;
  });
  ASSERT_TRUE(drained.ok()) << drained.status() << "\n" << cluster.Diagnose(*id);
  drain.set_undo(true);
  ASSERT_TRUE(cluster.jobs().DrainServer(drain, reply).ok());
  const auto moved = cluster.Await(
      *id, [](const v1::JobStatus& status) { return CountOn("server-1", status) > 0; });
  ASSERT_TRUE(moved.ok()) << moved.status() << "\n" << cluster.Diagnose(*id);
  EXPECT_EQ(moved->generation(), 1);

  // MoveTest compares the weights of jobs whose partitions move.
  const auto trained = AwaitCheckpointSince(cluster, *id);
  EXPECT_TRUE(trained.ok()) << trained.status() << "\n" << cluster.Diagnose(*id);
}

}  // namespace
}  // namespace muster
