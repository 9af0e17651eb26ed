// What happens to jobs when daemons, tasks or the coordinator are lost.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/lifecycle/recovery.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec EveryPush() {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  return spec;
}

class RecoveryScenarioTest : public ::testing::Test {
 protected:
  RecoveryScenarioTest() {
    cluster_.AddServer("s0");
    cluster_.AddServer("s1");
    cluster_.AddWorker("w0");
    cluster_.AddWorker("w1");
  }

  std::string Running(const v1::JobSpec& spec) {
    const std::string job = *cluster_.Submit(spec);
    cluster_.MeetAll(job);
    cluster_.ProgressAll(job, 3);
    EXPECT_EQ(cluster_.State(job), v1::RUNNING);
    return job;
  }

  void Kill(const std::string& id) {
    cluster_.Kill(id);
    cluster_.Pass(kLease + absl::Seconds(1));
  }

  v1::TaskOrder Order(const std::string& job, uint32_t slot) { return *cluster_.Order(job, slot); }

  SimulatedCluster cluster_;
};

TEST_F(RecoveryScenarioTest, ADaemonOfAnotherProtocolMustRegisterWithTheUpgradedCoordinator) {
  v1::DaemonRecord stored;
  ASSERT_TRUE(cluster_.store
                  .Scan(StoreTable::kDaemons, "w0",
                        [&](absl::string_view, absl::string_view value) {
                          return stored.ParseFromArray(value.data(), value.size())
                                     ? absl::OkStatus()
                                     : absl::DataLossError("unreadable");
                        })
                  .ok());
  stored.set_protocol_version(stored.protocol_version() - 1);
  JobStoreBatch batch;
  batch.Put(StoreTable::kDaemons, "w0", stored.SerializeAsString());
  ASSERT_TRUE(cluster_.store.Write(batch, JobStore::Durability::kSynced).ok());
  const uint64_t w0 = cluster_.daemon("w0").incarnation;
  const uint64_t w1 = cluster_.daemon("w1").incarnation;
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  EXPECT_GT(cluster_.daemon("w0").incarnation, w0);
  EXPECT_EQ(cluster_.daemon("w1").incarnation, w1);
}

TEST_F(RecoveryScenarioTest, ALostWorkersSlotGoesToAnotherInTheSameGeneration) {
  const std::string job = Running(SmallJob());
  cluster_.AddWorker("w2");
  const v1::TaskOrder old = Order(job, 1);
  const std::string holder = cluster_.Status(job).tasks(1).worker_id();
  Kill(holder);

  const v1::TaskOrder order = Order(job, 1);
  EXPECT_EQ(order.generation(), 1);
  EXPECT_EQ(order.incarnation(), 2);
  EXPECT_TRUE(order.expect_state());
  EXPECT_EQ(cluster_.Status(job).tasks(1).worker_id(), "w2");
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  EXPECT_EQ(Order(job, 0).incarnation(), 1) << "the other slot goes on";

  // The old task is fenced, wherever it still runs.
  EXPECT_EQ(cluster_.Progress(old, 4).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(cluster_.Rendezvous(order).status().ok()) << "the generation has met";
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(RecoveryScenarioTest, ALostSlotWaitsForRoomAndSaysSo) {
  const std::string job = Running(SmallJob());
  Kill(cluster_.Status(job).tasks(1).worker_id());
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  EXPECT_THAT(cluster_.Status(job).waiting_for(),
              HasSubstr("slot 1: 0 of 1 worker slots free; waits for 1 more"));
  EXPECT_EQ(cluster_.Status(job).tasks(1).state(), "LOST");
  cluster_.AddWorker("w9");
  EXPECT_EQ(Order(job, 1).incarnation(), 2);
}

TEST_F(RecoveryScenarioTest, AWorkerLostBeforeTheMeetingIsReplaced) {
  const std::string job = *cluster_.Submit(SmallJob());
  auto parked = cluster_.Rendezvous(Order(job, 0));
  cluster_.AddWorker("w2");
  Kill(cluster_.Status(job).tasks(1).worker_id());
  EXPECT_FALSE(parked.came());
  const v1::TaskOrder order = Order(job, 1);
  EXPECT_FALSE(order.expect_state());
  EXPECT_TRUE(cluster_.Rendezvous(order).status().ok());
  EXPECT_TRUE(parked.status().ok());
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
}

TEST_F(RecoveryScenarioTest, AReplacementWithOtherDataFailsTheJob) {
  const std::string job = Running(SmallJob());
  cluster_.Die(Order(job, 1));
  EXPECT_EQ(cluster_.Rendezvous(Order(job, 1), 10, 99).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("slot 1 has"));
}

TEST_F(RecoveryScenarioTest, ADeadTaskIsStartedAgain) {
  const std::string job = Running(SmallJob());
  cluster_.Die(Order(job, 0));
  EXPECT_EQ(Order(job, 0).incarnation(), 2);
  EXPECT_TRUE(cluster_.HasEvent(job, "died: signal 9"));
  const v1::ListEventsReply events = *cluster_.coordinator().jobs().Events(job);
  for (const v1::JobEvent& event : events.events()) {
    EXPECT_EQ(event.kind() == v1::JobEvent::LOSS, absl::StrContains(event.text(), "died"))
        << event.text();
  }
  EXPECT_TRUE(cluster_.Rendezvous(Order(job, 0)).status().ok());
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
}

TEST_F(RecoveryScenarioTest, FailuresWithoutProgressEndTheJob) {
  const std::string job = Running(SmallJob());
  const int unavailable = static_cast<int>(absl::StatusCode::kUnavailable);
  for (uint32_t failure = 1; failure <= kMaxSlotFailures; ++failure) {
    cluster_.End(Order(job, 0), unavailable, "server s0 does not answer");
    ASSERT_EQ(cluster_.State(job), v1::RECOVERING) << failure;
    cluster_.Pass(absl::Seconds(20));
    ASSERT_NE(cluster_.Order(job, 0), nullptr);
  }
  cluster_.End(Order(job, 0), unavailable, "server s0 does not answer");
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(),
              AllOf(HasSubstr("server s0 does not answer"), HasSubstr("failure 6")));
}

TEST_F(RecoveryScenarioTest, ProgressBetweenFailuresForgivesThem) {
  const std::string job = Running(SmallJob());
  for (uint32_t failure = 1; failure <= kMaxSlotFailures + 1; ++failure) {
    cluster_.Die(Order(job, 0));
    cluster_.Pass(absl::Seconds(20));
    ASSERT_EQ(cluster_.Progress(Order(job, 0), 3 + failure), absl::OkStatus());
  }
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
}

TEST_F(RecoveryScenarioTest, RepeatedFailuresAreSpacedOut) {
  const std::string job = Running(SmallJob());
  cluster_.Die(Order(job, 0));
  ASSERT_NE(cluster_.Order(job, 0), nullptr) << "the first one is started at once";
  cluster_.Die(Order(job, 0));
  EXPECT_EQ(cluster_.Order(job, 0), nullptr);
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("waits a little"));
  EXPECT_TRUE(
      cluster_.HasEvent(job, absl::StrCat("after a pause of ", absl::FormatDuration(kLease / 4))));
  cluster_.Pass(kLease / 2);
  EXPECT_NE(cluster_.Order(job, 0), nullptr);
}

TEST_F(RecoveryScenarioTest, ATaskThatMeetsARestartedServerDoesNotGetThereFirst) {
  const std::string job = Running(SmallJob());
  // The server is back, empty, and has not registered yet.
  cluster_.End(Order(job, 0), static_cast<int>(absl::StatusCode::kAborted),
               "server s0 does not hold the job");
  EXPECT_EQ(cluster_.Order(job, 0), nullptr);
  cluster_.RestartDaemon("s0");
  ASSERT_NE(cluster_.Order(job, 0), nullptr);
  EXPECT_EQ(Order(job, 0).generation(), 2);
}

TEST_F(RecoveryScenarioTest, CheckpointDurabilityRollsBackWhenAServerIsLost) {
  const std::string job = Running(SmallJob());
  EXPECT_EQ(cluster_.Status(job).recovery(), "rolls back to clock 0");
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 3).status().ok());
  EXPECT_EQ(cluster_.Status(job).recovery(), "rolls back to clock 3");
  cluster_.ProgressAll(job, 6);
  const v1::TaskOrder old = Order(job, 0);
  auto map = cluster_.GetShardMap(old, 2, absl::Minutes(1));
  Kill("s0");
  EXPECT_EQ(map.status().code(), absl::StatusCode::kAborted);

  const v1::TaskOrder order = Order(job, 0);
  EXPECT_EQ(order.generation(), 2);
  EXPECT_EQ(order.incarnation(), 2);
  EXPECT_EQ(order.start_clock(), 3);
  EXPECT_EQ(order.restore_uri(), "/checkpoints/" + job + "/3");
  EXPECT_FALSE(order.restore_weights_only());
  EXPECT_FALSE(order.expect_state());
  EXPECT_GT(order.shard_map().version(), old.shard_map().version());
  for (const v1::PartitionPlacement& partition : order.shard_map().partitions()) {
    EXPECT_EQ(partition.replicas(0).server_id(), "s1");
    EXPECT_EQ(partition.replicas(0).term(), 2);
  }
  EXPECT_EQ(cluster_.Status(job).progress().step(), 3);
  EXPECT_EQ(cluster_.Progress(old, 7).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);

  // The lost server drops what it held when it is back.
  cluster_.AddServer("s0");
  EXPECT_THAT(cluster_.daemon("s0").dropped, Contains(job));
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(RecoveryScenarioTest, WithoutACheckpointItStartsFromTheBeginning) {
  const std::string job = Running(SmallJob());
  Kill("s1");
  EXPECT_EQ(Order(job, 1).generation(), 2);
  EXPECT_EQ(Order(job, 1).start_clock(), 0);
  EXPECT_EQ(Order(job, 1).restore_uri(), "");
}

TEST_F(RecoveryScenarioTest, AServerThatRestartsWithinItsLeaseIsLostToo) {
  const std::string job = Running(SmallJob());
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 2).status().ok());
  cluster_.RestartDaemon("s0");
  EXPECT_EQ(Order(job, 0).generation(), 2);
  EXPECT_EQ(Order(job, 0).start_clock(), 2);
  EXPECT_EQ(cluster_.Status(job).partitions_size(), 2);
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(RecoveryScenarioTest, ARollBackWaitsForServersItWasPromised) {
  v1::JobSpec spec = SmallJob();
  spec.set_servers(2);
  const std::string job = Running(spec);
  Kill("s0");
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("1 of 2 servers live"));
  EXPECT_THAT(cluster_.Orders(job), IsEmpty());
  cluster_.AddServer("s0");
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(RecoveryScenarioTest, EveryPushWaitsForTheServerAndGoesOnInPlace) {
  const std::string job = Running(EveryPush());
  EXPECT_EQ(cluster_.Status(job).recovery(),
            "continues in place; if the server's data folder is lost, rolls back to clock 0");
  const v1::TaskOrder order = Order(job, 0);
  auto map = cluster_.GetShardMap(order, 2, absl::Minutes(1));
  Kill("s1");
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  EXPECT_THAT(cluster_.Status(job).waiting_for(),
              AllOf(HasSubstr("server s1"), HasSubstr("partitions 1"), HasSubstr("log")));
  EXPECT_EQ(Order(job, 0).incarnation(), 1) << "tasks go on and look for the server";
  EXPECT_FALSE(map.came());

  cluster_.AddServer("s1");
  cluster_.Pass(absl::Milliseconds(500));
  ASSERT_TRUE(map.status().ok());
  EXPECT_EQ(map.get()->version(), 2);
  EXPECT_EQ(map.get()->generation(), 1);
  EXPECT_EQ(map.get()->partitions(1).replicas(0).term(), 2);
  EXPECT_EQ(map.get()->partitions(0).replicas(0).term(), 1);
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING) << "until the tasks are heard again";
  cluster_.ProgressAll(job, 5);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_THAT(cluster_.daemon("s1").dropped, IsEmpty());
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(RecoveryScenarioTest, EveryPushFollowsAQuickRestart) {
  const std::string job = Running(EveryPush());
  cluster_.RestartDaemon("s0");
  EXPECT_EQ(cluster_.Status(job).shard_map_version(), 2);
  EXPECT_EQ(Order(job, 0).generation(), 1);
  EXPECT_EQ(Order(job, 0).incarnation(), 1);
}

TEST_F(RecoveryScenarioTest, EveryPushBeforeTheMeetingJustPlacesAgain) {
  const std::string job = *cluster_.Submit(EveryPush());
  Kill("s1");
  EXPECT_EQ(Order(job, 0).generation(), 2);
  EXPECT_EQ(Order(job, 0).shard_map().partitions(1).replicas(0).server_id(), "s0");
}

TEST_F(RecoveryScenarioTest, EveryPushWithWorkerAndServerLostAtOnce) {
  const std::string job = Running(EveryPush());
  const std::string holder = cluster_.Status(job).tasks(0).worker_id();
  cluster_.Kill(holder);
  Kill("s0");
  EXPECT_EQ(cluster_.Order(job, 0), nullptr) << "no task is started while a server is away";
  cluster_.AddServer("s0");
  cluster_.AddWorker(holder);
  cluster_.BeatAll();
  ASSERT_NE(cluster_.Order(job, 0), nullptr);
  EXPECT_EQ(Order(job, 0).incarnation(), 2);
  EXPECT_TRUE(Order(job, 0).expect_state());
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(RecoveryScenarioTest, ALossAfterAllIsDoneIsNoLoss) {
  const std::string job = Running(SmallJob());
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 10).status().ok());
  cluster_.EvaluateAll(job, 10);
  Kill("s0");
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(RecoveryScenarioTest, ALeavingWorkerGivesItsWorkBackAtOnce) {
  const std::string job = Running(SmallJob());
  cluster_.AddWorker("w2");
  const std::string holder = cluster_.Status(job).tasks(0).worker_id();
  v1::HeartbeatRequest request;
  request.set_id(holder);
  request.set_incarnation(cluster_.daemon(holder).incarnation);
  request.set_leaving(true);
  Answer<v1::HeartbeatReply> answer;
  cluster_.coordinator().daemons().Heartbeat(request, answer.call());
  EXPECT_TRUE(answer.status().ok());
  cluster_.Kill(holder);
  cluster_.Run();
  cluster_.BeatAll();
  EXPECT_EQ(Order(job, 0).incarnation(), 2);
}

TEST_F(RecoveryScenarioTest, ACheckpointOfAFencedGenerationIsNotTaken) {
  const std::string job = Running(SmallJob());
  const v1::TaskOrder old = Order(job, 0);
  v1::CommitCheckpointRequest request;
  request.mutable_task()->set_job_id(job);
  request.mutable_task()->set_generation(1);
  request.mutable_task()->set_incarnation(1);
  request.set_clock(5);
  Answer<v1::CommitCheckpointReply> answer;
  cluster_.coordinator().tasks().CommitCheckpoint(request, answer.call());
  // The manifest is still being written when the generation ends.
  cluster_.RestartDaemon("s0");
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(cluster_.Status(job).checkpoint_uri(), "");
  // The next generation writes the same clock.
  cluster_.MeetAll(job);
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 5).status().ok());
  EXPECT_EQ(cluster_.Status(job).checkpoint_clock(), 5);
}

TEST_F(RecoveryScenarioTest, TheCallsOfStrangersAreRefusedByName) {
  const std::string job = Running(SmallJob());
  v1::TaskOrder order = Order(job, 0);
  order.set_slot(9);
  EXPECT_EQ(cluster_.Progress(order, 1).code(), absl::StatusCode::kInvalidArgument);
  order = Order(job, 0);
  order.set_generation(2);
  EXPECT_THAT(std::string(cluster_.Progress(order, 1).message()),
              HasSubstr("has generation 2, current is 1"));
  order = Order(job, 0);
  order.set_incarnation(7);
  EXPECT_EQ(cluster_.Progress(order, 1).code(), absl::StatusCode::kAborted);
  order.set_job_id("j0-none");
  EXPECT_EQ(cluster_.Progress(order, 1).code(), absl::StatusCode::kNotFound);
}

TEST_F(RecoveryScenarioTest, GoingBackAgainAndAgainIsSpacedOut) {
  const std::string job = Running(SmallJob());
  cluster_.RestartDaemon("s0");
  ASSERT_NE(cluster_.Order(job, 0), nullptr) << "the first time it starts at once";
  cluster_.MeetAll(job);
  cluster_.RestartDaemon("s0");
  EXPECT_EQ(cluster_.Order(job, 0), nullptr);
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("waits a little"));
  cluster_.Pass(kLease / 2);
  EXPECT_NE(cluster_.Order(job, 0), nullptr);
}

TEST_F(RecoveryScenarioTest, AServerThatKeepsCrashingEndsTheJob) {
  const std::string job = Running(SmallJob());
  for (uint32_t rollback = 1; rollback <= kMaxRollBacks; ++rollback) {
    cluster_.RestartDaemon("s0");
    ASSERT_EQ(cluster_.State(job), v1::RECOVERING) << rollback;
    // Each time it waits longer before it starts again.
    cluster_.Pass(20 * kLease);
    cluster_.MeetAll(job);
    // Never further than before.
    cluster_.ProgressAll(job, 2);
  }
  cluster_.RestartDaemon("s0");
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(),
              AllOf(HasSubstr("lost server s0"),
                    HasSubstr("went back 8 times in a row without getting past clock 3")));
}

TEST_F(RecoveryScenarioTest, ProgressBetweenRollBacksForgivesThem) {
  const std::string job = Running(SmallJob());
  for (uint32_t rollback = 1; rollback <= 3 * kMaxRollBacks; ++rollback) {
    cluster_.RestartDaemon("s0");
    ASSERT_EQ(cluster_.State(job), v1::RECOVERING) << rollback;
    // Each time it waits longer before it starts again.
    cluster_.Pass(20 * kLease);
    cluster_.MeetAll(job);
    // Every fourth time there is a step that was never made before.
    cluster_.ProgressAll(job, 4 + rollback / 4);
  }
}

TEST_F(RecoveryScenarioTest, JobsThatWaitForEachOthersSlotsDoNotWaitForEver) {
  cluster_.AddWorker("w2");
  cluster_.AddWorker("w3");
  const std::string first = Running(SmallJob());
  const std::string second = Running(SmallJob());
  const std::string held = cluster_.Status(first).tasks(0).worker_id();
  const std::string lent = cluster_.Status(second).tasks(0).worker_id();
  // Each loses one of its two slots.
  cluster_.Kill(cluster_.Status(first).tasks(1).worker_id());
  Kill(cluster_.Status(second).tasks(1).worker_id());
  EXPECT_EQ(cluster_.Status(first).tasks(0).worker_id(), held);
  EXPECT_EQ(cluster_.Status(first).tasks(1).worker_id(), lent);
  EXPECT_TRUE(cluster_.HasEvent(second, "gives its slots back to job " + first));
  EXPECT_EQ(cluster_.Status(second).tasks(0).state(), "LOST");
  EXPECT_EQ(Order(first, 1).incarnation(), 2);
  cluster_.Finish(first);
  EXPECT_EQ(cluster_.State(first), v1::SUCCEEDED);
  // Its tables were kept, so it goes on where it was.
  EXPECT_EQ(Order(second, 0).generation(), 1);
  EXPECT_TRUE(Order(second, 0).expect_state());
  cluster_.Finish(second);
  EXPECT_EQ(cluster_.State(second), v1::SUCCEEDED);
}

TEST_F(RecoveryScenarioTest, ReplicasAreGivenUpWithTheirSlots) {
  cluster_.AddWorker("w2");
  cluster_.AddWorker("w3");
  const std::string first = Running(AllReduceJob());
  const std::string second = Running(AllReduceJob());
  cluster_.Kill(cluster_.Status(first).tasks(1).worker_id());
  Kill(cluster_.Status(second).tasks(1).worker_id());
  EXPECT_EQ(cluster_.Status(first).generation(), 1);
  EXPECT_EQ(cluster_.Orders(first).size(), 2);
  EXPECT_EQ(cluster_.Status(second).generation(), 2) << "nobody keeps its replica";
  cluster_.Finish(first);
  cluster_.Finish(second);
  EXPECT_EQ(cluster_.State(second), v1::SUCCEEDED);
}

TEST_F(RecoveryScenarioTest, NobodyGivesUpWhatWouldNotBeEnough) {
  cluster_.AddWorker("w2");
  cluster_.AddWorker("w3");
  cluster_.AddWorker("w4");
  v1::JobSpec spec = SmallJob();
  spec.set_workers(3);
  const std::string first = Running(spec);
  const std::string second = Running(SmallJob());
  const std::string kept = cluster_.Status(second).tasks(0).worker_id();
  cluster_.Kill(cluster_.Status(first).tasks(1).worker_id());
  cluster_.Kill(cluster_.Status(first).tasks(2).worker_id());
  Kill(cluster_.Status(second).tasks(1).worker_id());
  EXPECT_EQ(cluster_.Status(second).tasks(0).worker_id(), kept);
  EXPECT_EQ(cluster_.State(first), v1::RECOVERING);
}

TEST_F(RecoveryScenarioTest, DropsNameTheLastGenerationToGo) {
  const std::string job = Running(SmallJob());
  Kill("s0");
  ASSERT_EQ(Order(job, 0).generation(), 2);
  const auto drops_of = [&](const std::string& server) -> Drops {
    return cluster_.coordinator().table().DropsOf(server);
  };
  // Back, it has the tables of generation 1 to drop.
  EXPECT_EQ(drops_of("s0"), (Drops{{job, 1}}));
  cluster_.AddServer("s0");
  EXPECT_THAT(cluster_.daemon("s0").dropped, ElementsAre(job));
  cluster_.daemon("s1").cannot_drop = true;
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.daemon("s1").orders.drops(0).generation(), 2);
  EXPECT_EQ(drops_of("s1"), (Drops{{job, 2}}));
  cluster_.RestartCoordinator();
  EXPECT_EQ(drops_of("s1"), (Drops{{job, 2}})) << "stored with its generation";
  cluster_.daemon("s1").cannot_drop = false;
  cluster_.Pass(absl::Seconds(2));
  EXPECT_THAT(drops_of("s1"), IsEmpty());
}

// The steps of a job's life; the coordinator is restarted after each in turn.
class CoordinatorRestartTest : public ::testing::TestWithParam<int> {};

TEST_P(CoordinatorRestartTest, JobsGoOnUndisturbed) {
  SimulatedCluster cluster;
  std::string job;
  const std::vector<std::function<void()>> steps = {
      [&] { job = *cluster.Submit(SmallJob()); },
      [&] { cluster.AddServer("s0"); },
      [&] { cluster.AddWorker("w0", 2); },
      [&] { cluster.Rendezvous(*cluster.Order(job, 0)); },
      [&] { cluster.MeetAll(job); },
      [&] { cluster.ProgressAll(job, 4); },
      [&] { cluster.Checkpoint(*cluster.Order(job, 0), 4); },
      [&] { cluster.Evaluate(*cluster.Order(job, 0), 5); },
      [&] { cluster.EvaluateAll(job, 5); },
      [&] { cluster.Die(*cluster.Order(job, 1)); },
      [&] { cluster.Rendezvous(*cluster.Order(job, 1)); },
      [&] { cluster.Checkpoint(*cluster.Order(job, 0), 10); },
      [&] { cluster.EvaluateAll(job, 10); },
      [&] { cluster.End(*cluster.Order(job, 0)); },
      [&] { cluster.EndAll(job); },
  };
  for (size_t step = 0; step < steps.size(); ++step) {
    steps[step]();
    if (static_cast<int>(step) != GetParam()) continue;
    const v1::JobStatus before = cluster.Status(job);
    cluster.RestartCoordinator();
    cluster.BeatAll();
    const v1::JobStatus after = cluster.Status(job);
    EXPECT_EQ(after.state(), before.state());
    EXPECT_EQ(after.generation(), before.generation());
    EXPECT_EQ(after.shard_map_version(), before.shard_map_version());
    ASSERT_EQ(after.tasks_size(), before.tasks_size());
    for (int i = 0; i < after.tasks_size(); ++i) {
      EXPECT_EQ(after.tasks(i).incarnation(), before.tasks(i).incarnation());
      EXPECT_EQ(after.tasks(i).worker_id(), before.tasks(i).worker_id());
    }
  }
  const v1::JobStatus status = cluster.Status(job);
  EXPECT_EQ(status.state(), v1::SUCCEEDED) << status.message();
  EXPECT_EQ(status.generation(), 1);
  EXPECT_EQ(status.evaluations_size(), 2);
}

INSTANTIATE_TEST_SUITE_P(EveryStage, CoordinatorRestartTest, ::testing::Range(-1, 15));

TEST_F(RecoveryScenarioTest, AfterARestartSilentDaemonsHaveOneLease) {
  const std::string job = Running(SmallJob());
  const std::string holder = cluster_.Status(job).tasks(1).worker_id();
  cluster_.Kill(holder);
  cluster_.RestartCoordinator();
  cluster_.Pass(kLease - absl::Seconds(1));
  EXPECT_EQ(cluster_.State(job), v1::RUNNING) << "grace";
  cluster_.Pass(absl::Seconds(2));
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  EXPECT_EQ(cluster_.Status(job).tasks(1).incarnation(), 2);
}

TEST_F(RecoveryScenarioTest, ARestartForgetsNoDrops) {
  const std::string job = Running(SmallJob());
  cluster_.Kill("s0");
  cluster_.Finish(job);
  ASSERT_EQ(cluster_.State(job), v1::SUCCEEDED);
  cluster_.RestartCoordinator();
  cluster_.AddServer("s0");
  EXPECT_THAT(cluster_.daemon("s0").dropped, Contains(job));
}

TEST_F(RecoveryScenarioTest, ARestartBringsBackWaitingForAServer) {
  const std::string job = Running(EveryPush());
  Kill("s1");
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  cluster_.Pass(absl::Seconds(1));
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("server s1"));
  cluster_.AddServer("s1");
  cluster_.ProgressAll(job, 5);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
}

}  // namespace
}  // namespace muster
