// Workers that are told to leave, and what becomes of their tasks.
#include <cstdint>
#include <string>

#include "common/job/test_jobs.h"
#include "gtest/gtest.h"
#include "server/coordinator/simulation/all_reduce_test_fixture.h"

namespace muster {
namespace {

class DeparturesTest : public AllReduceTest {
 protected:
  // The worker is told that it must leave.
  void Notify(const std::string& id) {
    cluster_.daemon(id).leaves = true;
    cluster_.BeatAll();
    cluster_.Pass(absl::Milliseconds(100));
  }

  // Returns the round that the task is to leave after its step.
  uint64_t MeetAfter(const std::string& job, uint32_t slot, uint64_t clock) {
    EXPECT_TRUE(cluster_.Progress(Order(job, slot), clock).ok());
    return cluster_.progress_reply.meet_after_round();
  }
};

TEST_F(DeparturesTest, ARoundMeetsAfterItsStepAndTheSlotGoesElsewhere) {
  AddWorkers(3);
  const std::string job = Running(Job(2));
  const std::string leaving = Worker(job, 1);
  Notify(leaving);
  EXPECT_EQ(Worker(job, 1), leaving) << "its task finishes the step";
  EXPECT_EQ(MeetAfter(job, 0, 4), 1);
  EXPECT_EQ(MeetAfter(job, 1, 4), 1);
  auto left = cluster_.Rendezvous(Order(job, 1));
  EXPECT_FALSE(left.came());
  auto stays = cluster_.Rendezvous(Order(job, 0));
  cluster_.Pass(absl::Milliseconds(100));
  EXPECT_EQ(left.status().code(), absl::StatusCode::kAborted) << "it is fenced";
  EXPECT_NE(Worker(job, 1), leaving);
  EXPECT_TRUE(cluster_.daemon(leaving).orders.tasks().empty());
  EXPECT_FALSE(stays.came());
  cluster_.Rendezvous(Order(job, 1));
  ASSERT_TRUE(stays.status().ok()) << stays.status();
  EXPECT_EQ(stays.get()->round(), 2);
  EXPECT_EQ(cluster_.rank(Order(job, 1)).clock, 4) << "nothing is made again";
  EXPECT_EQ(cluster_.Status(job).generation(), 1);
  EXPECT_TRUE(
      cluster_.HasEvent(job, "slot 1 leaves worker " + leaving + ", which must end, at clock 4"));
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

TEST_F(DeparturesTest, WithMinWorkersTheOthersGoOnAtOnce) {
  AddWorkers(4);
  const std::string job = Running(Job(3, 2));
  const std::string leaving = Worker(job, 2);
  Notify(leaving);
  for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(MeetAfter(job, slot, 4), 1);
  auto stays = cluster_.Rendezvous(Order(job, 0));
  cluster_.Rendezvous(Order(job, 1));
  cluster_.Rendezvous(Order(job, 2));
  cluster_.Pass(absl::Milliseconds(100));
  ASSERT_TRUE(stays.status().ok()) << stays.status();
  EXPECT_EQ(stays.get()->peers_size(), 2) << "the slot's next task is still starting";
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  // The next task joins between two steps, and from then on it is awaited.
  EXPECT_NE(Worker(job, 2), leaving);
  auto joins = cluster_.Rendezvous(Order(job, 2));
  EXPECT_EQ(MeetAfter(job, 0, 5), 2);
  cluster_.Rendezvous(Order(job, 0));
  EXPECT_FALSE(joins.came());
  cluster_.Rendezvous(Order(job, 1));
  ASSERT_TRUE(joins.status().ok()) << joins.status();
  EXPECT_EQ(joins.get()->peers_size(), 3);
  EXPECT_EQ(cluster_.rank(Order(job, 2)).clock, 5);
  cluster_.Rendezvous(Order(job, 0));
  cluster_.Rendezvous(Order(job, 1));
  EXPECT_EQ(cluster_.Status(job).generation(), 1);
  EXPECT_EQ(cluster_.rank(Order(job, 0)).round, 3) << "no round without slot 2";
}

TEST_F(DeparturesTest, AWorkerThatLeavesGetsNoNewTasks) {
  cluster_.AddWorker("w0");
  Notify("w0");
  const std::string job = *cluster_.Submit(Job(1));
  EXPECT_EQ(cluster_.State(job), v1::PENDING);
  // Another process of the same id stays.
  cluster_.daemon("w0").leaves = false;
  cluster_.RestartDaemon("w0");
  cluster_.Pass(absl::Milliseconds(100));
  EXPECT_EQ(Worker(job, 0), "w0");
}

TEST_F(DeparturesTest, AFinalLossWaitsForTheNextCheckpoint) {
  AddWorkers(3);
  v1::JobSpec spec = Job(2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(1);
  const std::string job = Running(spec);
  Notify(Worker(job, 1));
  EXPECT_EQ(MeetAfter(job, 0, 4), 0);
  EXPECT_EQ(MeetAfter(job, 1, 4), 0);
  EXPECT_EQ(cluster_.Status(job).generation(), 1);
  auto saved = cluster_.Checkpoint(Order(job, 0), 4);
  ASSERT_TRUE(saved.status().ok()) << saved.status();
  cluster_.Pass(absl::Milliseconds(100));
  EXPECT_EQ(cluster_.Status(job).generation(), 2);
  EXPECT_EQ(Order(job, 1).start_clock(), 4);
  EXPECT_TRUE(cluster_.HasEvent(job, "which must end, at clock 4; generation 2 starts again"));
}

TEST_F(DeparturesTest, AShardThatNobodyElseHasIsHandedOverFirst) {
  AddWorkers(3);
  v1::JobSpec spec = Job(3, 1);
  spec.mutable_parallelism()->mutable_zero()->set_stage(2);
  const std::string job = Running(spec);
  const std::string leaving = Worker(job, 1);
  Notify(leaving);
  for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(MeetAfter(job, slot, 4), 1);
  auto meets = cluster_.Rendezvous(Order(job, 1));
  cluster_.Rendezvous(Order(job, 0));
  cluster_.Rendezvous(Order(job, 2));
  cluster_.Pass(absl::Milliseconds(100));
  // All are there once more, for the others to take what slot 1 has.
  ASSERT_TRUE(meets.status().ok()) << meets.status();
  EXPECT_EQ(meets.get()->round(), 2);
  EXPECT_EQ(meets.get()->peers_size(), 3);
  ASSERT_EQ(meets.get()->leaving_slots_size(), 1);
  EXPECT_EQ(meets.get()->leaving_slots(0), 1);
  EXPECT_EQ(Worker(job, 1), leaving);
  auto left = cluster_.Rendezvous(Order(job, 1));
  auto stays = cluster_.Rendezvous(Order(job, 0));
  cluster_.Rendezvous(Order(job, 2));
  cluster_.Pass(absl::Milliseconds(100));
  EXPECT_EQ(left.status().code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(stays.status().ok()) << stays.status();
  EXPECT_EQ(stays.get()->round(), 3);
  EXPECT_EQ(stays.get()->peers_size(), 2);
  EXPECT_TRUE(stays.get()->leaving_slots().empty());
  EXPECT_EQ(cluster_.rank(Order(job, 0)).clock, 4);
  EXPECT_EQ(cluster_.Status(job).generation(), 1) << "nothing is made again";
  EXPECT_TRUE(cluster_.daemon(leaving).orders.tasks().empty());
}

TEST_F(DeparturesTest, ALossWhileAShardIsHandedOverTakesTheJobBack) {
  AddWorkers(3);
  v1::JobSpec spec = Job(3, 1);
  spec.mutable_parallelism()->mutable_zero()->set_stage(2);
  const std::string job = Running(spec);
  Notify(Worker(job, 1));
  for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(MeetAfter(job, slot, 4), 1);
  cluster_.MeetAll(job);
  cluster_.Pass(absl::Milliseconds(100));
  Kill(Worker(job, 2));
  EXPECT_EQ(cluster_.Status(job).generation(), 2);
}

TEST_F(DeparturesTest, NobodyWaitsWhenAllWorkersLeave) {
  AddWorkers(2);
  const std::string job = Running(Job(2));
  Notify("w0");
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  Notify("w1");
  EXPECT_TRUE(cluster_.Orders(job).empty());
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
}

TEST_F(DeparturesTest, OnServersTheTaskEndsAfterItsStepAndHasNotFailed) {
  cluster_.AddServer("s0");
  AddWorkers(3);
  v1::JobSpec spec = SmallJob();
  spec.set_workers(2);
  const std::string job = Running(spec);
  const std::string leaving = Worker(job, 1);
  Notify(leaving);
  EXPECT_EQ(MeetAfter(job, 0, 4), 0) << "only the task that leaves is told";
  EXPECT_EQ(MeetAfter(job, 1, 4), 1);
  const v1::TaskOrder before = Order(job, 1);
  cluster_.End(before, static_cast<int>(absl::StatusCode::kCancelled), "leaves after its step");
  cluster_.Pass(absl::Milliseconds(100));
  EXPECT_EQ(Order(job, 1).incarnation(), before.incarnation() + 1);
  EXPECT_NE(Worker(job, 1), leaving);
  EXPECT_EQ(cluster_.Status(job).generation(), 1);
}

}  // namespace
}  // namespace muster
