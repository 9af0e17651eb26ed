// Drains and rebalancing, seen from the coordinator: what is ordered, stored and given up, and that
// a restart between any two steps changes nothing.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(5);

v1::JobSpec EveryPush() {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  spec.mutable_update()->set_partitions(4);
  return spec;
}

class MoveSchedulerTest : public ::testing::Test {
 protected:
  MoveSchedulerTest() {
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

  absl::StatusCode Drain(const std::string& server, bool undo = false) {
    v1::DrainServerRequest request;
    request.set_server_id(server);
    request.set_undo(undo);
    const absl::Status status = cluster_.coordinator().moves().Drain(request).status();
    cluster_.Run();
    cluster_.BeatAll();
    return status.code();
  }

  // "p KIND" of a server's orders.
  std::vector<std::string> Orders(const std::string& server) {
    std::vector<std::string> orders;
    for (const v1::MoveOrder& order : cluster_.daemon(server).orders.moves()) {
      orders.push_back(
          absl::StrCat(order.partition(), " ", v1::MoveOrder::Kind_Name(order.kind())));
    }
    return orders;
  }

  // The server does as it is told, and says so.
  void Obey(const std::string& server, v1::MoveReport::State adopted = v1::MoveReport::ADOPTED) {
    SimulatedCluster::Daemon& daemon = cluster_.daemon(server);
    daemon.moves.clear();
    for (const v1::MoveOrder& order : daemon.orders.moves()) {
      if (order.kind() == v1::MoveOrder::HAND_OVER) continue;
      v1::MoveReport& report = daemon.moves.emplace_back();
      report.set_job_id(order.job_id());
      report.set_generation(order.generation());
      report.set_partition(order.partition());
      report.set_term(order.term());
      report.set_state(order.kind() == v1::MoveOrder::ADOPT ? adopted : v1::MoveReport::RELEASED);
    }
    cluster_.Beat(server);
    cluster_.BeatAll();
  }

  // Owners of the job's partitions, in order.
  std::vector<std::string> Owners(const std::string& job) {
    std::vector<std::string> owners;
    const v1::JobStatus status = cluster_.Status(job);
    for (const v1::PartitionPlacement& placement : status.partitions()) {
      owners.push_back(placement.replicas(0).server_id());
    }
    return owners;
  }

  v1::DrainStatus OnlyDrain() {
    const auto drains = cluster_.coordinator().moves().Drains();
    return drains.size() == 1 ? drains[0] : v1::DrainStatus();
  }

  SimulatedCluster cluster_;
};

TEST_F(MoveSchedulerTest, ADrainedServersPartitionsMoveOneByOne) {
  const std::string job = Running(EveryPush());
  ASSERT_THAT(Owners(job), ElementsAre("s0", "s1", "s0", "s1"));
  cluster_.AddServer("s2");
  const uint64_t version = cluster_.Status(job).shard_map_version();
  ASSERT_EQ(Drain("s0"), absl::StatusCode::kOk);
  EXPECT_THAT(Orders("s0"), ElementsAre("0 HAND_OVER"));
  EXPECT_THAT(Orders("s2"), ElementsAre("0 ADOPT"));
  EXPECT_EQ(cluster_.daemon("s2").orders.moves(0).from_address(), "s0:1");
  EXPECT_EQ(OnlyDrain().partitions(), 2u);
  EXPECT_EQ(cluster_.Status(job).shard_map_version(), version)
      << "nobody is told before it is there";

  Obey("s2");
  EXPECT_THAT(Owners(job), ElementsAre("s2", "s1", "s0", "s1"));
  EXPECT_EQ(cluster_.Status(job).shard_map_version(), version + 1);
  EXPECT_THAT(Orders("s0"), Contains("0 RELEASE"));
  for (int i = 0; i < 3; ++i) {
    for (const char* server : {"s0", "s1", "s2"}) Obey(server);
  }
  EXPECT_THAT(Owners(job), ElementsAre("s2", "s1", "s2", "s1"));
  EXPECT_EQ(OnlyDrain().partitions(), 0u);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);

  // The job has no part in it any more, but what it may still hold is dropped at the end.
  cluster_.Kill("s0");
  cluster_.Pass(kLease + absl::Seconds(1));
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  cluster_.AddServer("s0");
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
  EXPECT_THAT(cluster_.daemon("s0").dropped, Contains(job));
}

class RestartTest : public MoveSchedulerTest, public ::testing::WithParamInterface<int> {};

TEST_P(RestartTest, ARestartBetweenAnyTwoStepsChangesNothing) {
  int step = 0;
  const auto next = [&](const std::function<void()>& act) {
    if (step++ == GetParam()) {
      cluster_.RestartCoordinator();
      cluster_.BeatAll();
    }
    act();
  };
  const std::string job = Running(EveryPush());
  cluster_.AddServer("s2");
  next([&] { ASSERT_EQ(Drain("s0"), absl::StatusCode::kOk); });
  for (int i = 0; i < 4; ++i) {
    for (const char* server : {"s2", "s0", "s1"}) next([&] { Obey(server); });
  }
  EXPECT_THAT(Owners(job), ElementsAre("s2", "s1", "s2", "s1"));
  EXPECT_EQ(OnlyDrain().partitions(), 0u);
  EXPECT_EQ(OnlyDrain().server_id(), "s0");
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_EQ(cluster_.Status(job).generation(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Steps, RestartTest, ::testing::Range(0, 13));

TEST_F(MoveSchedulerTest, AMoveToALostServerIsGivenUpAndTriedElsewhere) {
  const std::string job = Running(EveryPush());
  cluster_.AddServer("s2");
  ASSERT_EQ(Drain("s0"), absl::StatusCode::kOk);
  ASSERT_THAT(Orders("s2"), ElementsAre("0 ADOPT"));
  cluster_.Kill("s2");
  cluster_.Pass(kLease + absl::Seconds(1));
  EXPECT_TRUE(cluster_.HasEvent(job, "given up: server s2 was lost"));
  EXPECT_EQ(cluster_.State(job), v1::RUNNING) << "it held nothing that the job needs";
  EXPECT_THAT(Orders("s1"), ElementsAre("0 ADOPT"));
  // Back again, it hears that its copy is of no use.
  cluster_.AddServer("s2");
  EXPECT_THAT(Orders("s2"), Contains("0 RELEASE"));
  Obey("s2");
  EXPECT_THAT(Orders("s2"), ::testing::Not(Contains("0 RELEASE")));
}

TEST_F(MoveSchedulerTest, AServerThatFailsIsTriedLessAndLessOften) {
  const std::string job = Running(EveryPush());
  ASSERT_EQ(Drain("s0"), absl::StatusCode::kOk);
  const auto fail = [&](const std::string& server) {
    Obey(server, v1::MoveReport::FAILED);
    // What it had is deleted, so that it could be chosen again.
    Obey(server);
  };
  ASSERT_THAT(Orders("s1"), ElementsAre("0 ADOPT"));
  fail("s1");
  std::vector<int> pauses;
  for (int i = 0; i < 3; ++i) {
    int seconds = 0;
    for (; Orders("s1").empty() && seconds < 1000; ++seconds) {
      cluster_.Pass(absl::Seconds(1));
      cluster_.BeatAll();
    }
    pauses.push_back(seconds);
    fail("s1");
  }
  EXPECT_NEAR(pauses[0], 10, 2);
  EXPECT_NEAR(pauses[1], 20, 2);
  EXPECT_NEAR(pauses[2], 40, 2);
  cluster_.Pass(absl::Seconds(15));
  EXPECT_THAT(OnlyDrain().waiting_for(0), HasSubstr("before it tries s1 again"));
  // Others need not wait.
  cluster_.AddServer("s2");
  cluster_.Pass(absl::Seconds(1));
  cluster_.BeatAll();
  EXPECT_THAT(Orders("s2"), ElementsAre("0 ADOPT"));
}

TEST_F(MoveSchedulerTest, AServerThatIsAwayHoldsUpNeitherDrainNorRebalancing) {
  const std::string job = Running(EveryPush());
  cluster_.AddServer("s2");
  ASSERT_TRUE(cluster_.coordinator().moves().Rebalance(job).ok());
  ASSERT_EQ(Drain("s0"), absl::StatusCode::kOk);
  for (int i = 0; i < 6; ++i) {
    for (const char* server : {"s1", "s2"}) Obey(server);
  }
  EXPECT_THAT(Owners(job), ::testing::Not(Contains("s0")));
  EXPECT_EQ(OnlyDrain().partitions(), 2u) << "it has not said that it deleted them";
  EXPECT_FALSE(cluster_.HasEvent(job, "its partitions are spread evenly"));
  cluster_.Kill("s0");
  cluster_.Pass(kLease + absl::Seconds(1));
  EXPECT_EQ(OnlyDrain().partitions(), 0u);
  EXPECT_TRUE(cluster_.HasEvent(job, "its partitions are spread evenly"));
  // Back again, it is still told.
  cluster_.AddServer("s0");
  cluster_.BeatAll();
  EXPECT_THAT(Orders("s0"), ElementsAre("0 RELEASE", "2 RELEASE"));
}

TEST_F(MoveSchedulerTest, AJobThatNeedsADrainingServerIsInNobodysWay) {
  ASSERT_EQ(Drain("s0"), absl::StatusCode::kOk);
  v1::JobSpec both = SmallJob();
  both.set_servers(2);
  const std::string waits = *cluster_.Submit(both);
  EXPECT_EQ(cluster_.State(waits), v1::PENDING);
  const std::string next = *cluster_.Submit(SmallJob());
  EXPECT_EQ(cluster_.State(next), v1::PLACING);
}

TEST_F(MoveSchedulerTest, AReportOfAMoveThatWasGivenUpIsNotTaken) {
  const std::string job = Running(EveryPush());
  cluster_.AddServer("s2");
  ASSERT_EQ(Drain("s0"), absl::StatusCode::kOk);
  const v1::HeartbeatReply late = cluster_.daemon("s2").orders;
  ASSERT_EQ(Drain("s2"), absl::StatusCode::kOk);
  cluster_.daemon("s2").orders = late;
  Obey("s2");
  EXPECT_THAT(Owners(job), Contains("s0"));
  EXPECT_THAT(Owners(job), ::testing::Not(Contains("s2")));
}

TEST_F(MoveSchedulerTest, ADrainThatCannotEndSaysWhatIsMissing) {
  Running(EveryPush());
  ASSERT_EQ(Drain("s1"), absl::StatusCode::kOk);
  ASSERT_EQ(Drain("s0"), absl::StatusCode::kOk);
  const auto drains = cluster_.coordinator().moves().Drains();
  ASSERT_EQ(drains.size(), 2u);
  ASSERT_EQ(drains[0].waiting_for_size(), 1);
  EXPECT_THAT(drains[0].waiting_for(0), HasSubstr("there is no other live server"));
  EXPECT_EQ(Drain("s0", true), absl::StatusCode::kOk);
  EXPECT_EQ(Drain("nobody"), absl::StatusCode::kNotFound);
}

TEST_F(MoveSchedulerTest, DrainingServersGetNothingNew) {
  ASSERT_EQ(Drain("s0"), absl::StatusCode::kOk);
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  const std::string job = *cluster_.Submit(EveryPush());
  EXPECT_THAT(Owners(job), ElementsAre("s1", "s1", "s1", "s1"));
  EXPECT_EQ(OnlyDrain().partitions(), 0u);
}

TEST_F(MoveSchedulerTest, ADrainedWorkerKeepsItsTasksAndGetsNoOthers) {
  const std::string job = Running(EveryPush());
  const auto worker_of = [&](uint32_t slot) {
    return cluster_.Status(job).tasks(slot).worker_id();
  };
  ASSERT_THAT((std::vector<std::string>{worker_of(0), worker_of(1)}),
              testing::UnorderedElementsAre("w0", "w1"));
  const std::string waits = *cluster_.Submit(SmallJob());
  ASSERT_EQ(Drain("w0"), absl::StatusCode::kOk);
  EXPECT_EQ(OnlyDrain().server_id(), "w0");
  EXPECT_EQ(OnlyDrain().partitions(), 0u);
  ASSERT_EQ(OnlyDrain().waiting_for_size(), 1);
  EXPECT_THAT(OnlyDrain().waiting_for(0), HasSubstr(absl::StrCat("job ", job, " has slot ")));
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);

  cluster_.Finish(job);
  EXPECT_EQ(OnlyDrain().waiting_for_size(), 0);
  EXPECT_EQ(cluster_.State(waits), v1::PENDING) << "w1 alone has too few slots for it";
  ASSERT_EQ(Drain("w0", /*undo=*/true), absl::StatusCode::kOk);
  EXPECT_EQ(cluster_.State(waits), v1::PLACING);
}

TEST_F(MoveSchedulerTest, TheTasksOfADrainedWorkerThatStopsGoElsewhere) {
  const std::string job = Running(EveryPush());
  cluster_.AddWorker("w2");
  ASSERT_EQ(Drain("w0"), absl::StatusCode::kOk);
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  EXPECT_EQ(OnlyDrain().waiting_for_size(), 1);
  cluster_.Kill("w0");
  cluster_.Pass(kLease + absl::Seconds(1));
  EXPECT_EQ(OnlyDrain().waiting_for_size(), 0);
  const v1::JobStatus status = cluster_.Status(job);
  EXPECT_THAT((std::vector<std::string>{status.tasks(0).worker_id(), status.tasks(1).worker_id()}),
              testing::UnorderedElementsAre("w1", "w2"));
  EXPECT_EQ(status.generation(), 1u);
}

TEST_F(MoveSchedulerTest, UnderCheckpointTheJobLeavesAfterItsNextCheckpoint) {
  const std::string job = Running(SmallJob());
  ASSERT_EQ(Drain("s0"), absl::StatusCode::kOk);
  EXPECT_EQ(cluster_.Status(job).generation(), 1u);
  EXPECT_TRUE(cluster_.HasEvent(job, "as soon as its next checkpoint is there"));
  EXPECT_THAT(OnlyDrain().waiting_for(0), HasSubstr("after its next checkpoint"));
  ASSERT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 4).status().ok());
  cluster_.Pass(absl::Seconds(1));
  EXPECT_EQ(cluster_.Status(job).generation(), 2u);
  EXPECT_THAT(Owners(job), ElementsAre("s1", "s1"));
  EXPECT_EQ(cluster_.Order(job, 0)->start_clock(), 4u);
  EXPECT_EQ(OnlyDrain().partitions(), 0u);
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(MoveSchedulerTest, AHotPartitionMovesToTheLeastBusyServer) {
  v1::JobSpec spec = EveryPush();
  spec.mutable_update()->set_move_hot_partitions(true);
  const std::string job = Running(spec);
  cluster_.AddServer("s2");
  std::vector<double> cores = {0.7, 0.1, 0.6, 0.1}, sums(4);
  // Servers work for so many seconds, obey, and tell.
  const auto work = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      for (auto& [id, daemon] : cluster_.daemons()) daemon.loads.clear();
      const std::vector<std::string> owners = Owners(job);
      for (uint32_t partition = 0; partition < 4; ++partition) {
        sums[partition] += cores[partition];
        v1::PartitionLoad& load = cluster_.daemon(owners[partition]).loads.emplace_back();
        load.set_job_id(job);
        load.set_generation(1);
        load.set_partition(partition);
        load.set_busy_seconds(sums[partition]);
      }
      for (const char* server : {"s0", "s1", "s2"}) Obey(server);
      cluster_.Pass(absl::Seconds(1));
    }
  };
  ASSERT_THAT(Owners(job), ElementsAre("s0", "s1", "s0", "s1"));
  work(28);
  EXPECT_THAT(Owners(job), ElementsAre("s0", "s1", "s0", "s1"));
  work(10);
  EXPECT_THAT(Owners(job), ElementsAre("s2", "s1", "s0", "s1"))
      << "0.7 and 0.6 are as close as they can be";
  EXPECT_TRUE(cluster_.HasEvent(job, "move of partition 0 from s0 to s2 begins: s0 keeps 1."));
  EXPECT_TRUE(cluster_.HasEvent(job, "of them with this partition, and s2 0.00, over 30s"));
  work(150);
  EXPECT_THAT(Owners(job), ElementsAre("s2", "s1", "s0", "s1")) << "constant loads rest";

  // Not within a minute, and only by what is measured on the new servers.
  cores = {0.1, 1.2, 0.1, 1.1};
  work(62);
  const std::vector<std::string> owners = Owners(job);
  EXPECT_NE(owners[1], owners[3]);
  EXPECT_EQ(cluster_.Status(job).generation(), 1);
}

TEST_F(MoveSchedulerTest, NothingMovesByLoadUnasked) {
  const std::string job = Running(EveryPush());
  for (int i = 1; i < 60; ++i) {
    v1::PartitionLoad load;
    load.set_job_id(job);
    load.set_generation(1);
    std::vector<v1::PartitionLoad>& loads = cluster_.daemon("s0").loads;
    loads.clear();
    for (const uint32_t partition : {0, 2}) {
      load.set_partition(partition);
      load.set_busy_seconds(i);
      loads.push_back(load);
    }
    cluster_.Pass(absl::Seconds(1));
  }
  EXPECT_THAT(Owners(job), ElementsAre("s0", "s1", "s0", "s1"));
}

TEST_F(MoveSchedulerTest, AServerThatJoinsTakesPartWhenAsked) {
  const std::string job = Running(EveryPush());
  cluster_.AddServer("s2");
  ASSERT_TRUE(cluster_.coordinator().moves().Rebalance(job).ok());
  cluster_.Run();
  cluster_.BeatAll();
  for (int i = 0; i < 5; ++i) {
    for (const char* server : {"s0", "s1", "s2"}) Obey(server);
  }
  EXPECT_THAT(Owners(job), Contains("s2"));
  EXPECT_TRUE(cluster_.HasEvent(job, "its partitions are spread evenly"));
  EXPECT_EQ(cluster_.coordinator().moves().Rebalance("nobody").code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster
