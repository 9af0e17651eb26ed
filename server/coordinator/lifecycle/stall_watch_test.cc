// Tasks that live and do not move, on both roads.
#include "server/coordinator/lifecycle/stall_watch.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/lifecycle/recovery.h"
#include "server/coordinator/simulation/all_reduce_test_fixture.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Duration kStall = CoordinatorOptions().stall_timeout;
constexpr absl::Duration kMoment = absl::Seconds(1);

class StallWatchTest : public AllReduceTest {
 protected:
  // A job on servers whose tasks have met and closed 3 clocks.
  std::string RunningOnServers(const v1::JobSpec& spec) {
    cluster_.AddServer("s0");
    AddWorkers(spec.workers());
    return Running(spec);
  }

  uint64_t Incarnation(const std::string& job, uint32_t slot) {
    return cluster_.Status(job).tasks(slot).incarnation();
  }
};

TEST_F(StallWatchTest, ATaskThatDoesNotComeToMeetIsReplaced) {
  AddWorkers(3);
  const std::string job = Running(Job(3));
  auto first = cluster_.Rendezvous(Order(job, 0));
  auto third = cluster_.Rendezvous(Order(job, 2));
  cluster_.Pass(kStall - kMoment);
  EXPECT_EQ(Incarnation(job, 1), 1);
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "the others wait for slot 1");
  cluster_.Pass(2 * kMoment);
  EXPECT_TRUE(cluster_.HasEvent(job, "slot 1 on worker w1 is stuck at clock 3"));
  EXPECT_TRUE(cluster_.HasEvent(job, "another task takes its place"));
  EXPECT_EQ(Incarnation(job, 1), 2);
  EXPECT_FALSE(first.came());
  cluster_.Rendezvous(AwaitOrder(job, 1));
  ASSERT_TRUE(first.status().ok()) << first.status();
  EXPECT_EQ(first.get()->round(), 2);
  EXPECT_EQ(first.get()->peers_size(), 3);
  EXPECT_TRUE(third.status().ok());
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

TEST_F(StallWatchTest, WhoseCallWasNotOverInTimeHasWaitedAlready) {
  AddWorkers(3);
  const std::string job = Running(Job(3));
  cluster_.rank(Order(job, 2)).late = true;
  cluster_.Rendezvous(Order(job, 0));
  cluster_.Pass(kLease);
  auto late = cluster_.Rendezvous(Order(job, 2));
  cluster_.Pass(kLease - kMoment);
  EXPECT_EQ(Incarnation(job, 1), 1) << "a lease counts from the first who was late";
  cluster_.Pass(2 * kMoment);
  EXPECT_TRUE(cluster_.HasEvent(job, "slot 1 on worker w1 is stuck"));
  // The next task was not in that call: it may take its time to start.
  const v1::TaskOrder next = AwaitOrder(job, 1);
  cluster_.Pass(kStall / 2);
  EXPECT_EQ(Incarnation(job, 1), 2);
  cluster_.Rendezvous(next);
  EXPECT_TRUE(late.status().ok()) << late.status();
}

TEST_F(StallWatchTest, WhoComesInTimeIsLeftAlone) {
  AddWorkers(2);
  const std::string job = Running(Job(2));
  for (int round = 2; round < 5; ++round) {
    cluster_.ProgressAll(job, 2 * round);
    auto first = cluster_.Rendezvous(Order(job, 0));
    cluster_.Pass(kStall - kMoment);
    EXPECT_FALSE(first.came());
    cluster_.Rendezvous(Order(job, 1));
    ASSERT_TRUE(first.status().ok()) << first.status();
    EXPECT_EQ(first.get()->round(), round);
  }
  EXPECT_EQ(Incarnation(job, 1), 1);
}

TEST_F(StallWatchTest, ARepeatedCallGoesOnWaiting) {
  AddWorkers(2);
  const std::string job = Running(Job(2));
  for (absl::Duration waited; waited < kStall + kMoment; waited += absl::Minutes(1)) {
    auto call = cluster_.Rendezvous(Order(job, 0));
    cluster_.Pass(absl::Minutes(1) - kMoment);
    call.Cancel();
    cluster_.Pass(kMoment);
  }
  EXPECT_TRUE(cluster_.HasEvent(job, "slot 1 on worker w1 is stuck"));
}

TEST_F(StallWatchTest, NewcomersWaitForALongStep) {
  AddWorkers(2);
  const std::string job = Running(Job(2, 1));
  Kill(Worker(job, 1));
  cluster_.Rendezvous(Order(job, 0));
  cluster_.Pass(kElasticWait);
  ASSERT_EQ(cluster_.State(job), v1::RUNNING);
  cluster_.AddWorker("w9");
  auto newcomer = cluster_.Rendezvous(AwaitOrder(job, 1));
  cluster_.Pass(3 * kStall);
  EXPECT_FALSE(newcomer.came());
  EXPECT_EQ(Incarnation(job, 0), 1);
  EXPECT_THAT(cluster_.Status(job).waiting_for(), IsEmpty());
}

TEST_F(StallWatchTest, ATaskThatNeverStartsIsReplaced) {
  AddWorkers(2);
  const std::string job = *cluster_.Submit(Job(2));
  auto first = cluster_.Rendezvous(Order(job, 0));
  cluster_.Pass(kStall + kMoment);
  EXPECT_EQ(Incarnation(job, 1), 2);
  cluster_.Rendezvous(AwaitOrder(job, 1));
  EXPECT_TRUE(first.status().ok()) << first.status();
}

TEST_F(StallWatchTest, AnEvaluationWaitsForAShareOnlySoLong) {
  AddWorkers(2);
  const std::string job = Running(Job(2));
  auto share = cluster_.Evaluate(Order(job, 0), 4);
  cluster_.Pass(kStall - kMoment);
  EXPECT_EQ(Incarnation(job, 1), 1);
  EXPECT_FALSE(share.came());
  cluster_.Pass(2 * kMoment);
  EXPECT_EQ(Incarnation(job, 1), 2);
  EXPECT_EQ(share.status().code(), absl::StatusCode::kCancelled) << share.status();
}

TEST_F(StallWatchTest, ADecisionWaitsForATaskOnlySoLong) {
  AddWorkers(2);
  v1::JobSpec spec = Job(2);
  spec.mutable_evaluation()->set_every_steps(4);
  spec.mutable_schedule()->mutable_plateau();
  const std::string job = Running(spec);
  cluster_.EvaluateAll(job, 4);
  auto asked = cluster_.Adjust(Order(job, 0), 4);
  cluster_.Pass(kStall - kMoment);
  EXPECT_EQ(Incarnation(job, 1), 1);
  EXPECT_FALSE(asked.came());
  cluster_.Pass(2 * kMoment);
  EXPECT_EQ(Incarnation(job, 1), 2);
  EXPECT_EQ(asked.status().code(), absl::StatusCode::kCancelled) << asked.status();
}

TEST_F(StallWatchTest, WhoStallsAgainAndAgainEndsTheJob) {
  AddWorkers(2);
  const std::string job = Running(Job(2));
  auto first = cluster_.Rendezvous(Order(job, 0));
  cluster_.Pass((kMaxSlotFailures + 2) * (kStall + absl::Minutes(10)));
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("slot 1 on worker"));
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("is stuck at clock"));
}

TEST_F(StallWatchTest, TimeInWhichTheCoordinatorStoodStillDoesNotCount) {
  AddWorkers(2);
  const std::string job = Running(Job(2));
  auto first = cluster_.Rendezvous(Order(job, 0));
  cluster_.Pass(kMoment);
  cluster_.clock.Advance(2 * kStall);
  cluster_.Pass(kMoment);
  EXPECT_EQ(Incarnation(job, 1), 1);
  cluster_.Rendezvous(Order(job, 1));
  EXPECT_TRUE(first.status().ok()) << first.status();
}

TEST_F(StallWatchTest, OnServersWhoIsTooFarBehindIsReplaced) {
  const std::string job = RunningOnServers(SmallJob());
  const v1::TaskOrder ahead = Order(job, 0);
  EXPECT_TRUE(cluster_.Progress(ahead, 4).ok());
  cluster_.Pass(kStall - kMoment);
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "the others wait for slot 1");
  // It was only slow.
  EXPECT_TRUE(cluster_.Progress(Order(job, 1), 4).ok());
  EXPECT_TRUE(cluster_.Progress(ahead, 5).ok());
  cluster_.Pass(kStall - kMoment);
  EXPECT_EQ(Incarnation(job, 1), 1);
  cluster_.Pass(2 * kMoment);
  EXPECT_EQ(Incarnation(job, 1), 2);
  EXPECT_EQ(Incarnation(job, 0), 1);
  EXPECT_TRUE(cluster_.HasEvent(job, "is stuck at clock 4"));
}

TEST_F(StallWatchTest, StepsOfAllMayTakeAnyTime) {
  const std::string job = RunningOnServers(SmallJob());
  cluster_.Pass(5 * kStall);
  EXPECT_EQ(Incarnation(job, 0), 1);
  EXPECT_EQ(Incarnation(job, 1), 1);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
}

TEST_F(StallWatchTest, StalenessSaysHowFarBehindIsTooFar) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_staleness_bound(2);
  const std::string job = RunningOnServers(spec);
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 5).ok());
  cluster_.Pass(2 * kStall);
  EXPECT_EQ(Incarnation(job, 1), 1) << "two clocks are allowed";
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 6).ok());
  cluster_.Pass(kStall + kMoment);
  EXPECT_EQ(Incarnation(job, 1), 2);
}

TEST_F(StallWatchTest, NobodyIsBehindWhileAllAreWithinTheBoundOfTheBeginning) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_staleness_bound(100);
  const std::string job = RunningOnServers(spec);
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 9).ok());
  cluster_.Pass(2 * kStall);
  EXPECT_EQ(Incarnation(job, 0), 1);
  EXPECT_EQ(Incarnation(job, 1), 1);
}

TEST_F(StallWatchTest, OfManySlotsOnlyThoseAreAwaitedThatKeepTheFurthest) {
  constexpr uint32_t kSlots = 300;
  v1::JobSpec spec = SmallJob();
  spec.set_workers(kSlots);
  spec.set_batch_size(kSlots);
  cluster_.AddServer("s0");
  cluster_.AddWorker("w0", kSlots);
  const std::string job = Running(spec);
  // Running closed 3 clocks.
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    if (slot == 7 || slot == 200) continue;
    EXPECT_TRUE(cluster_.Progress(Order(job, slot), 4).ok());
  }
  const muster::Job& found = *cluster_.coordinator().table().Find(job);
  EXPECT_THAT(AwaitedSlots(found), ElementsAre(7, 200));
  EXPECT_TRUE(cluster_.Progress(Order(job, 200), 4).ok());
  EXPECT_THAT(AwaitedSlots(found), ElementsAre(7));
}

TEST_F(StallWatchTest, WithoutABoundOnlyTheEndWaits) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_unlimited_staleness(true);
  const std::string job = RunningOnServers(spec);
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 10).ok());
  cluster_.Pass(2 * kStall);
  EXPECT_EQ(Incarnation(job, 1), 1);
  cluster_.End(Order(job, 0));
  cluster_.Pass(kStall + kMoment);
  EXPECT_EQ(Incarnation(job, 1), 2);
}

TEST_F(StallWatchTest, AMissingServerIsNoTasksFault) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  const std::string job = RunningOnServers(spec);
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 4).ok());
  Kill("s0");
  cluster_.Pass(2 * kStall);
  EXPECT_EQ(Incarnation(job, 1), 1);
}

}  // namespace
}  // namespace muster
