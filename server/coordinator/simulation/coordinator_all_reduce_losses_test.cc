// Jobs that train by all-reduce with fewer workers than they want, and what happens when some are
// lost.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/lifecycle/recovery.h"
#include "server/coordinator/simulation/all_reduce_test_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(AllReduceTest, GoesOnWithFewerWorkersAndTakesThemInAgain) {
  AddWorkers(3);
  const std::string job = Running(Job(3, 2));
  Kill(Worker(job, 0));
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  auto a = cluster_.Rendezvous(Order(job, 1));
  auto b = cluster_.Rendezvous(Order(job, 2));
  EXPECT_FALSE(a.came()) << "waits for a worker first";
  cluster_.Pass(kElasticWait);
  ASSERT_TRUE(a.status().ok()) << a.status();
  EXPECT_EQ(a.get()->round(), 2);
  ASSERT_EQ(a.get()->peers_size(), 2);
  EXPECT_EQ(a.get()->peers(0).slot(), 1);
  EXPECT_EQ(a.get()->source_slot(), 1);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_TRUE(cluster_.HasEvent(job, "goes on with 2 of 3 workers again in round 2"));
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("goes on with 2 of 3 workers"));
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("slot 0: 0 of 1 worker slots free"));

  // Two shares make an evaluation now, and the lowest slot speaks.
  auto share = cluster_.Evaluate(Order(job, 1), 4);
  EXPECT_FALSE(share.came());
  EXPECT_TRUE(cluster_.Evaluate(Order(job, 2), 4).status().ok());
  EXPECT_TRUE(share.status().ok());
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 1), 4).status().ok());
  EXPECT_EQ(cluster_.Checkpoint(Order(job, 2), 5).status().code(),
            absl::StatusCode::kInvalidArgument);
  cluster_.ProgressAll(job, 5);
  EXPECT_EQ(cluster_.progress_reply.meet_after_round(), 0);

  // A worker comes; the others are told when its task is there.
  cluster_.AddWorker("w9");
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  const v1::TaskOrder newcomer = Order(job, 0);
  cluster_.ProgressAll(job, 6);
  EXPECT_EQ(cluster_.progress_reply.meet_after_round(), 0);
  auto joins = cluster_.Rendezvous(newcomer);
  EXPECT_FALSE(joins.came());
  EXPECT_TRUE(cluster_.Progress(Order(job, 1), 7).ok());
  EXPECT_EQ(cluster_.progress_reply.meet_after_round(), 2);
  EXPECT_TRUE(cluster_.Progress(Order(job, 2), 7).ok());
  EXPECT_EQ(cluster_.progress_reply.meet_after_round(), 2);
  cluster_.Rendezvous(Order(job, 1));
  EXPECT_EQ(cluster_.Evaluate(Order(job, 2), 7).status().code(), absl::StatusCode::kCancelled)
      << "the round is over";
  cluster_.Rendezvous(Order(job, 2));
  ASSERT_TRUE(joins.status().ok());
  EXPECT_EQ(joins.get()->round(), 3);
  EXPECT_EQ(joins.get()->peers_size(), 3);
  EXPECT_EQ(cluster_.rank(newcomer).clock, 7);
  cluster_.ProgressAll(job, 8);
  EXPECT_EQ(cluster_.progress_reply.meet_after_round(), 0);
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

// Such as one on a machine that stands still: no connection breaks.
TEST_F(AllReduceTest, TasksAreToldToEndTheirCallsWhenOneOfTheirRoundIsLost) {
  AddWorkers(3);
  const std::string job = Running(Job(3));
  cluster_.ProgressAll(job, 5);
  EXPECT_EQ(cluster_.progress_reply.lost_round(), 0);
  Kill(Worker(job, 2));
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 6).ok());
  EXPECT_EQ(cluster_.progress_reply.lost_round(), 1) << "no worker is free for the slot";
  cluster_.AddWorker("w9");
  cluster_.Rendezvous(AwaitOrder(job, 2));
  cluster_.Rendezvous(Order(job, 0));
  EXPECT_TRUE(cluster_.Progress(Order(job, 1), 6).ok());
  EXPECT_EQ(cluster_.progress_reply.lost_round(), 1) << "the others have left it";
  cluster_.Rendezvous(Order(job, 1));
  ASSERT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 7).ok());
  EXPECT_EQ(cluster_.progress_reply.lost_round(), 0) << "another round";
}

TEST_F(AllReduceTest, ABrokenNewcomerDoesNotEndASmallerJob) {
  AddWorkers(2);
  const std::string job = Running(Job(2, 1));
  Kill(Worker(job, 1));
  cluster_.Rendezvous(Order(job, 0));
  cluster_.Pass(kElasticWait);
  ASSERT_EQ(cluster_.State(job), v1::RUNNING);
  cluster_.AddWorker("w9");
  // Its data is not mounted, however often it is tried.
  for (uint32_t failure = 0; failure <= kMaxSlotFailures; ++failure) {
    cluster_.End(AwaitOrder(job, 1), static_cast<int>(absl::StatusCode::kNotFound),
                 "cannot open /data");
    ASSERT_EQ(cluster_.State(job), v1::RUNNING) << cluster_.Status(job).message();
  }
  EXPECT_TRUE(
      cluster_.HasEvent(job, "slot 1 on worker w9 ended with NOT_FOUND: cannot open /data"));
  // Then it is other data.
  auto other = cluster_.Rendezvous(AwaitOrder(job, 1), 10, /*data_fingerprint=*/8);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 5).ok());
  EXPECT_EQ(cluster_.progress_reply.meet_after_round(), 0) << "nobody is there to be met";
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  // Once it is mended, it is taken in.
  auto joins = cluster_.Rendezvous(Order(job, 1));
  cluster_.Rendezvous(Order(job, 0));
  ASSERT_TRUE(joins.status().ok()) << joins.status();
  EXPECT_EQ(joins.get()->peers_size(), 2);
  // What is wrong with a member ends the job as ever.
  cluster_.End(Order(job, 1), static_cast<int>(absl::StatusCode::kNotFound), "cannot open /data");
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
}

TEST_F(AllReduceTest, FailuresOfANewcomerAreForgivenOnceItJoins) {
  AddWorkers(2);
  const std::string job = Running(Job(2, 1));
  Kill(Worker(job, 1));
  cluster_.Rendezvous(Order(job, 0));
  cluster_.Pass(kElasticWait);
  cluster_.AddWorker("w9");
  const int unavailable = static_cast<int>(absl::StatusCode::kUnavailable);
  for (uint32_t failure = 0; failure <= kMaxSlotFailures; ++failure) {
    cluster_.End(AwaitOrder(job, 1), unavailable, "the network is down");
  }
  // From when it joins on they count from the beginning, though no step is made.
  for (uint32_t failure = 1; failure <= kMaxSlotFailures; ++failure) {
    auto joins = cluster_.Rendezvous(AwaitOrder(job, 1));
    cluster_.Rendezvous(Order(job, 0));
    cluster_.Pass(kLongestPause);
    ASSERT_TRUE(joins.status().ok()) << joins.status();
    cluster_.End(Order(job, 1), unavailable, "connection reset");
    ASSERT_EQ(cluster_.State(job), v1::RECOVERING) << cluster_.Status(job).message();
  }
  cluster_.Rendezvous(AwaitOrder(job, 1));
  cluster_.Rendezvous(Order(job, 0));
  cluster_.Pass(kLongestPause);
  cluster_.End(Order(job, 1), unavailable, "connection reset");
  EXPECT_EQ(cluster_.State(job), v1::FAILED) << "joining again forgives nothing";
}

TEST_F(AllReduceTest, ASmallerJobEndsWithoutTheMissing) {
  AddWorkers(2);
  const std::string job = Running(Job(2, 1));
  Kill(Worker(job, 1));
  cluster_.Rendezvous(Order(job, 0));
  cluster_.Pass(kElasticWait);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

TEST_F(AllReduceTest, BelowMinWorkersItWaits) {
  AddWorkers(3);
  const std::string job = Running(Job(3, 2));
  const std::string one = Worker(job, 1), two = Worker(job, 2);
  cluster_.Kill(one);
  Kill(two);
  auto waits = cluster_.Rendezvous(Order(job, 0));
  cluster_.Pass(2 * kElasticWait);
  EXPECT_FALSE(waits.came());
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  cluster_.AddWorker(one);
  cluster_.Rendezvous(Order(job, 1));
  ASSERT_TRUE(waits.status().ok()) << "slot 2 is given up by now";
  EXPECT_EQ(waits.get()->peers_size(), 2);
}

TEST_F(AllReduceTest, WithAllLostItStartsAgainWithFewer) {
  AddWorkers(2);
  const std::string job = Running(Job(2, 1));
  const std::string other = Worker(job, 1);
  cluster_.Kill("w0");
  Kill("w1");
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  cluster_.AddWorker("w0");
  EXPECT_THAT(cluster_.Orders(job), IsEmpty());
  cluster_.Pass(kElasticWait);
  ASSERT_EQ(cluster_.Orders(job).size(), 1);
  EXPECT_EQ(cluster_.Orders(job)[0].generation(), 2);
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

TEST_F(AllReduceTest, TheOthersAreToldOfALossThatTheirCallsCannotSee) {
  AddWorkers(3);
  const std::string job = Running(Job(2));
  // The task may live on, behind a daemon that lost its lease.
  auto share = cluster_.Evaluate(Order(job, 0), 3);
  Kill(Worker(job, 1));
  EXPECT_EQ(share.status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(cluster_.Progress(Order(job, 0), 4).ok());
  EXPECT_EQ(cluster_.progress_reply.meet_after_round(), 1);
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING) << "until they have met";
}

TEST_F(AllReduceTest, ALossAfterSomeHaveEndedTakesTheJobBack) {
  AddWorkers(2);
  const std::string job = Running(AllReduceJob());
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 3).status().ok());
  cluster_.End(Order(job, 1));
  cluster_.Die(Order(job, 0));
  EXPECT_EQ(Order(job, 1).generation(), 2);
  EXPECT_EQ(Order(job, 1).start_clock(), 3);
  cluster_.MeetAll(job);
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 10).status().ok());
  cluster_.EvaluateAll(job, 10);
  cluster_.End(Order(job, 1));
  // Only its goodbye failed.
  EXPECT_EQ(cluster_.Rendezvous(Order(job, 0)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

// The news come in the other order: first the loss, then that others had ended well.
TEST_F(AllReduceTest, EndingAfterALossFinishesWhatIsComplete) {
  AddWorkers(2);
  const std::string job = Running(AllReduceJob());
  cluster_.EvaluateAll(job, 10);
  const v1::TaskOrder speaker = Order(job, 0);
  cluster_.Die(Order(job, 1));
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  EXPECT_TRUE(cluster_.Checkpoint(speaker, 10).status().ok());
  cluster_.End(speaker);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(AllReduceTest, EndingAfterALossTakesAnIncompleteJobBack) {
  AddWorkers(3);
  const std::string job = Running(Job(3));
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 3).status().ok());
  const v1::TaskOrder ending = Order(job, 1);
  cluster_.Die(Order(job, 2));
  auto parked = cluster_.Rendezvous(Order(job, 0));
  EXPECT_FALSE(parked.came());
  cluster_.End(ending);
  EXPECT_EQ(parked.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Order(job, 0).generation(), 2);
  EXPECT_EQ(Order(job, 0).start_clock(), 3);
}

TEST_F(AllReduceTest, AHybridGoesBackWhateverIsLost) {
  cluster_.AddServer("s0");
  AddWorkers(3);
  const std::string job = *cluster_.Submit(HybridJob());
  // Nothing is lost before they met.
  cluster_.Die(Order(job, 1));
  EXPECT_EQ(Order(job, 1).generation(), 1);
  EXPECT_EQ(Order(job, 1).shard_map().partitions_size(), 2);
  cluster_.MeetAll(job);
  cluster_.ProgressAll(job, 3);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_TRUE(cluster_.Checkpoint(Order(job, 0), 3).status().ok());
  EXPECT_EQ(cluster_.Status(job).recovery(), "rolls back to clock 3");
  cluster_.Die(Order(job, 1));
  EXPECT_EQ(Order(job, 0).generation(), 2);
  EXPECT_EQ(Order(job, 0).start_clock(), 3);
  cluster_.MeetAll(job);
  cluster_.ProgressAll(job, 5);
  cluster_.RestartDaemon("s0");
  EXPECT_EQ(Order(job, 0).generation(), 3);
  cluster_.MeetAll(job);
  cluster_.ProgressAll(job, 6);
  // A collective call failed, though nobody is lost.
  cluster_.MeetAll(job);
  cluster_.BeatAll();
  EXPECT_EQ(Order(job, 0).generation(), 4);
  EXPECT_TRUE(cluster_.HasEvent(job, "slot 0 left round 1, which broke"));
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

// Runs a shard group of 4 ranks on workers of some slots each. One rank's own error fails the calls
// of the others, which come to meet before or after its end is known.
class OwnErrorTest : public AllReduceTest,
                     public ::testing::WithParamInterface<std::tuple<uint32_t, bool>> {
 protected:
  static constexpr uint32_t kRanks = 4;

  std::string Start(uint32_t slots_each) {
    for (uint32_t i = 0; i < kRanks / slots_each; ++i) {
      cluster_.AddWorker("w" + std::to_string(i), slots_each);
    }
    v1::JobSpec spec = Job(kRanks);
    spec.mutable_parallelism()->mutable_zero()->set_stage(1);
    return Running(spec);
  }

  // Lets the calls of these slots fail.
  std::vector<Answer<v1::RendezvousReply>> LeaveCall(const std::string& job,
                                                     const std::vector<uint32_t>& slots) {
    std::vector<Answer<v1::RendezvousReply>> answers;
    for (const uint32_t slot : slots) {
      const v1::TaskOrder order = Order(job, slot);
      cluster_.rank(order).failure = "slot 2 left all-reduce 7";
      answers.push_back(cluster_.Rendezvous(order));
      EXPECT_FALSE(answers.back().came()) << "slot " << slot << ": " << answers.back().status();
    }
    return answers;
  }

  // Slot 2 ends with its error.
  void EndSlot(const std::string& job, absl::StatusCode code, const std::string& message,
               v1::TaskReport::Loss loss = v1::TaskReport::LOSS_UNSPECIFIED) {
    const bool error_first = std::get<1>(GetParam());
    if (!error_first) LeaveCall(job, {0, 1, 3});
    cluster_.End(Order(job, 2), static_cast<int>(code), message, loss);
  }
};

TEST_P(OwnErrorTest, FailsTheJob) {
  const std::string job = Start(std::get<0>(GetParam()));
  EndSlot(job, absl::StatusCode::kOutOfRange, "diverged at step 4");
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("diverged at step 4"));
  EXPECT_FALSE(cluster_.HasEvent(job, "generation 2"));
}

TEST_P(OwnErrorTest, NotesADamagedCheckpoint) {
  const std::string job = Start(std::get<0>(GetParam()));
  for (const uint64_t clock : {3, 4}) {
    cluster_.ProgressAll(job, clock);
    ASSERT_TRUE(cluster_.Checkpoint(Order(job, 0), clock).status().ok());
  }
  cluster_.Die(Order(job, 0));
  ASSERT_EQ(Order(job, 2).start_clock(), 4);
  cluster_.MeetAll(job);
  EndSlot(job, absl::StatusCode::kDataLoss, "p0 is damaged", v1::TaskReport::CHECKPOINT);
  EXPECT_TRUE(cluster_.HasEvent(job, "the checkpoint at clock 4 is damaged: p0 is damaged"));
  EXPECT_EQ(Order(job, 2).generation(), 3);
  EXPECT_EQ(Order(job, 2).start_clock(), 3);
}

INSTANTIATE_TEST_SUITE_P(Orders, OwnErrorTest,
                         ::testing::Combine(::testing::Values(1, 4), ::testing::Bool()));

class FinalLossTest : public OwnErrorTest {};

TEST_F(FinalLossTest, AKilledTaskTakesTheJobBackAtOnce) {
  const std::string job = Start(1);
  const auto others = LeaveCall(job, {0, 1, 3});
  cluster_.Die(Order(job, 2));
  for (const auto& other : others) EXPECT_EQ(other.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Order(job, 2).generation(), 2);
}

TEST_F(FinalLossTest, ALostMachineTakesTheJobBackOnceItsLeaseEnds) {
  const std::string job = Start(1);
  const auto others = LeaveCall(job, {0, 1, 3});
  Kill(Worker(job, 2));
  for (const auto& other : others) EXPECT_EQ(other.status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(cluster_.HasEvent(job, "slot 2 lost its worker w2; generation 2"));
  EXPECT_FALSE(cluster_.HasEvent(job, "generation 3"));
}

TEST_F(FinalLossTest, AStuckTaskTakesTheJobBackALeaseAfterTheOthersCame) {
  const std::string job = Start(1);
  for (const uint32_t slot : {0, 1, 3}) cluster_.rank(Order(job, slot)).late = true;
  const auto others = LeaveCall(job, {0, 1, 3});
  cluster_.Pass(kLease + absl::Seconds(1));
  for (const auto& other : others) EXPECT_EQ(other.status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(cluster_.HasEvent(job, "slot 2 on worker w2 is stuck"));
}

TEST_F(FinalLossTest, WithNobodyLostTheJobGoesBackOnceTheLastHasCome) {
  const std::string job = Start(1);
  const auto others = LeaveCall(job, {0, 1, 3});
  // The slot computes, and is told when it reports.
  cluster_.Pass(2 * kLease);
  EXPECT_TRUE(cluster_.Progress(Order(job, 2), 4).ok());
  EXPECT_EQ(cluster_.progress_reply.meet_after_round(), 1);
  EXPECT_FALSE(others[0].came());
  EXPECT_EQ(cluster_.Rendezvous(Order(job, 2)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(others[0].status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(cluster_.HasEvent(job,
                                "which broke: slot 0 on worker w0, slot 1 on worker w1, slot "
                                "3 on worker w3: slot 2 left all-reduce 7; generation 2"));
}

// The slot waits for a clock that slot 1 no longer closes, so its calls never fail.
TEST_F(AllReduceTest, AHybridGoesBackThoughATaskWaitsOnAServer) {
  cluster_.AddServer("s0");
  AddWorkers(2);
  const std::string job = Running(HybridJob());
  auto other = cluster_.Rendezvous(Order(job, 1));
  EXPECT_FALSE(other.came());
  cluster_.Pass(kLease + absl::Seconds(1));
  EXPECT_EQ(other.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Order(job, 0).generation(), 2);
}

}  // namespace
}  // namespace muster
