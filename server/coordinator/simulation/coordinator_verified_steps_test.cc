// Steps that are compared: all tasks are told the same, and a job leaves workers that compute wrong
// bits, whoever is lost meanwhile.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

enum class VerifiedRoad { kServers, kAllReduce };

class VerifiedStepsTest : public testing::TestWithParam<VerifiedRoad> {
 protected:
  using Reply = Answer<v1::VerifyStepReply>;

  // Starts a job of so many workers, and a worker for each and one more.
  void Start(uint32_t workers) {
    workers_ = workers;
    cluster_.AddServer("s0");
    for (uint32_t i = 0; i <= workers; ++i) cluster_.AddWorker("w" + std::to_string(i));
    v1::JobSpec spec = on_servers() ? SmallJob() : AllReduceJob();
    spec.set_workers(workers);
    spec.set_batch_size(12);
    spec.set_verify_every(2);
    job_ = *cluster_.Submit(spec);
    cluster_.MeetAll(job_);
    cluster_.ProgressAll(job_, 1);
  }

  bool on_servers() const { return GetParam() == VerifiedRoad::kServers; }
  v1::TaskOrder Order(uint32_t slot) { return *cluster_.Order(job_, slot); }
  v1::JobStatus Status() { return cluster_.Status(job_); }

  // Has the slot tell all that it computed of the step at clock 1: its own share, and one for each
  // attempt. The `wrong` ones of these, by number, have other bits.
  Reply Tell(uint32_t slot, uint32_t attempt, const std::set<uint32_t>& wrong = {}) {
    std::vector<std::pair<uint32_t, uint64_t>> shares;
    for (uint32_t distance = 0; distance <= attempt + 1; ++distance) {
      const uint32_t share = (slot + distance) % workers_;
      shares.emplace_back(share, 100 + share + (wrong.count(distance) > 0 ? 1000 : 0));
    }
    return cluster_.Verify(Order(slot), 1, attempt, shares);
  }

  // Has all slots tell; `wrong` are those of slot `of`.
  std::vector<Reply> TellAll(uint32_t attempt, uint32_t of, const std::set<uint32_t>& wrong) {
    std::vector<Reply> replies;
    for (uint32_t slot = 0; slot < workers_; ++slot) {
      replies.push_back(slot == of ? Tell(slot, attempt, wrong) : Tell(slot, attempt));
    }
    return replies;
  }

  static void ExpectDistance(const Reply& reply, uint32_t distance) {
    ASSERT_TRUE(reply.came());
    ASSERT_TRUE(reply.get().ok()) << reply.get().status();
    EXPECT_EQ(reply.get()->next_distance(), distance);
  }

  // Gives lost slots time to be filled, and has their tasks meet the others.
  void Recover() {
    cluster_.Pass(absl::Seconds(10));
    cluster_.MeetAll(job_);
    cluster_.Pass(absl::Seconds(10));
  }

  SimulatedCluster cluster_;
  std::string job_;
  uint32_t workers_ = 0;
};

TEST_P(VerifiedStepsTest, AllWaitForAllAndARightStepGoesOn) {
  Start(3);
  const Reply first = Tell(0, 0), second = Tell(1, 0);
  EXPECT_FALSE(first.came());
  EXPECT_FALSE(second.came());
  ExpectDistance(Tell(2, 0), 0);
  ExpectDistance(first, 0);
  ExpectDistance(second, 0);
  ExpectDistance(Tell(1, 0), 0);
  EXPECT_EQ(Status().left_workers_size(), 0);
}

TEST_P(VerifiedStepsTest, ARightStepStaysRightAfterARestart) {
  Start(3);
  const std::vector<Reply> replies = TellAll(0, 0, {});
  cluster_.RestartCoordinator();
  cluster_.Pass(absl::Seconds(1));
  // Slot 1 has not heard the answer; the others go on, and do not call again.
  ExpectDistance(Tell(1, 0), 0);
}

TEST_P(VerifiedStepsTest, AThirdOpinionNamesTheWorkerThatIsWrong) {
  Start(3);
  for (const Reply& reply : TellAll(0, 1, {0})) ExpectDistance(reply, 2);
  const std::vector<Reply> replies = TellAll(1, 1, {0});
  EXPECT_EQ(replies[1].status().code(), absl::StatusCode::kAborted);
  ASSERT_EQ(Status().left_workers_size(), 1);
  const std::string left = Status().left_workers(0).worker_id();
  EXPECT_THAT(Status().left_workers(0).reason(), HasSubstr("slot 1's gradients of step 2"));
  EXPECT_TRUE(cluster_.HasEvent(job_, "the job leaves worker " + left));

  Recover();
  ASSERT_EQ(Status().state(), v1::RUNNING);
  EXPECT_NE(Status().tasks(1).worker_id(), left);
  if (on_servers()) {
    // The others have kept what they computed.
    for (const uint32_t slot : {0, 2}) EXPECT_FALSE(replies[slot].came());
    ExpectDistance(Tell(1, 0), 0);
    for (const uint32_t slot : {0, 2}) ExpectDistance(replies[slot], 0);
  } else {
    for (const uint32_t slot : {0, 2}) {
      EXPECT_EQ(replies[slot].status().code(), absl::StatusCode::kCancelled);
    }
    for (const Reply& reply : TellAll(0, 0, {})) ExpectDistance(reply, 0);
  }
}

TEST_P(VerifiedStepsTest, ALeftWorkerIsNotTakenAgainAsLongAsTheJobLives) {
  Start(3);
  TellAll(0, 1, {0});
  TellAll(1, 1, {0});
  const std::string left = Status().left_workers(0).worker_id();
  Recover();
  // The spare worker is gone, too, and the one that was left starts anew.
  const std::string spare = Status().tasks(1).worker_id();
  cluster_.Kill(spare);
  cluster_.RestartDaemon(left);
  cluster_.Pass(absl::Seconds(20));
  cluster_.RestartCoordinator();
  cluster_.Pass(absl::Seconds(20));
  EXPECT_EQ(Status().tasks(1).worker_id(), "");
  EXPECT_THAT(Status().waiting_for(), HasSubstr(left + ", which the job has left"));
  // Other jobs may take it.
  v1::JobSpec small = AllReduceJob();
  small.set_workers(1);
  const std::string other = *cluster_.Submit(small);
  cluster_.Pass(absl::Seconds(1));
  EXPECT_EQ(cluster_.Status(other).tasks(0).worker_id(), left);
}

TEST_P(VerifiedStepsTest, AmongTwoTheOneThatContradictsItselfIsWrong) {
  Start(2);
  for (const Reply& reply : TellAll(0, 1, {1})) ExpectDistance(reply, 2);
  for (const Reply& reply : TellAll(1, 1, {1})) ExpectDistance(reply, 3);
  const std::vector<Reply> replies = TellAll(2, 1, {1});
  EXPECT_EQ(replies[1].status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Status().left_workers_size(), 1);
}

TEST_P(VerifiedStepsTest, WhereNobodyCanTellTheJobFailsAndSaysWhatToDo) {
  Start(2);
  for (uint32_t attempt = 0; attempt < 2; ++attempt) {
    // Its own share, each time.
    for (const Reply& reply : TellAll(attempt, 1, {0, 2})) ExpectDistance(reply, attempt + 2);
  }
  for (const Reply& reply : TellAll(2, 1, {0, 2})) {
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kNotFound) << reply.status();
  }
  EXPECT_EQ(Status().state(), v1::FAILED);
  EXPECT_THAT(Status().message(), HasSubstr("slot 0 (worker "));
  EXPECT_THAT(Status().message(), HasSubstr("slot 1 (worker "));
  EXPECT_THAT(Status().message(), HasSubstr("three data ranks"));
}

TEST_P(VerifiedStepsTest, BitsOfDifferentProcessorsAreNotCompared) {
  Start(2);
  const Reply first = cluster_.Verify(Order(0), 1, 0, {{0, 1}, {1, 2}}, "a with 2 threads");
  cluster_.Verify(Order(1), 1, 0, {{1, 2}, {0, 1}}, "b with 2 threads");
  EXPECT_EQ(first.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Status().state(), v1::FAILED);
  EXPECT_THAT(Status().message(), HasSubstr("a with 2 threads: slot 0 (worker "));
}

TEST_P(VerifiedStepsTest, ARestartBetweenAttemptsForgetsNoOpinion) {
  Start(3);
  for (const Reply& reply : TellAll(0, 1, {0})) ExpectDistance(reply, 2);
  cluster_.RestartCoordinator();
  cluster_.Pass(absl::Seconds(1));
  // Slot 2 has not heard that it is to compute another share.
  Tell(0, 1);
  Tell(1, 1, {0});
  const Reply behind = Tell(2, 0);
  // Share 1 has the opinions of slots 1 and 0, and share 2 those of 2 and 1 and 0.
  ExpectDistance(behind, 2);
  EXPECT_EQ(Tell(2, 1).status().code(),
            on_servers() ? absl::StatusCode::kUnknown : absl::StatusCode::kCancelled);
  ASSERT_EQ(Status().left_workers_size(), 1);
}

TEST_P(VerifiedStepsTest, ATaskThatIsLostMeanwhileIsWaitedFor) {
  Start(3);
  const Reply first = Tell(0, 0), second = Tell(1, 0);
  cluster_.Die(Order(2));
  Recover();
  if (on_servers()) {
    EXPECT_FALSE(first.came());
    ExpectDistance(Tell(2, 0), 0);
    ExpectDistance(first, 0);
    return;
  }
  EXPECT_EQ(first.status().code(), absl::StatusCode::kCancelled);
  for (const Reply& reply : TellAll(0, 0, {})) ExpectDistance(reply, 0);
}

TEST_P(VerifiedStepsTest, ARoundThatRepeatsAStepComparesItAgain) {
  Start(3);
  if (on_servers()) return;
  TellAll(0, 0, {});
  cluster_.Die(Order(2));
  Recover();
  EXPECT_FALSE(Tell(0, 0).came());
}

TEST_P(VerifiedStepsTest, WhatCannotBeStoredIsNotTold) {
  Start(2);
  cluster_.store.failing = true;
  for (const Reply& reply : TellAll(0, 0, {})) {
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  }
  cluster_.store.failing = false;
  for (const Reply& reply : TellAll(0, 0, {})) ExpectDistance(reply, 0);
}

TEST_P(VerifiedStepsTest, OthersAtAnotherClockAreNotMixedUp) {
  Start(2);
  const Reply first = Tell(0, 0);
  EXPECT_EQ(cluster_.Verify(Order(1), 3, 0, {{1, 1}, {0, 2}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(first.came());
}

TEST(VerifiedTensorRanksTest, ADataRankThatRepeatsAStepAloneOnServersIsTold) {
  SimulatedCluster cluster;
  cluster.AddServer("s0");
  for (const char* worker : {"w0", "w1", "w2"}) cluster.AddWorker(worker, 2);
  v1::JobSpec spec = SmallJob();
  spec.set_workers(4);
  spec.mutable_parallelism()->set_tensor(2);
  spec.set_verify_every(2);
  const absl::StatusOr<std::string> job = cluster.Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  cluster.MeetAll(*job);
  cluster.ProgressAll(*job, 1);
  const auto tell = [&](uint32_t slot) {
    const uint32_t rank = slot / 2, part = slot % 2;
    return cluster.Verify(*cluster.Order(*job, slot), 1, 0,
                          {{rank, 10 * rank + part}, {1 - rank, 10 * (1 - rank) + part}});
  };
  Answer<v1::VerifyStepReply> last;
  for (const uint32_t slot : {0, 1, 2, 3}) last = tell(slot);
  ASSERT_TRUE(last.came());
  ASSERT_TRUE(last.get().ok()) << last.get().status();
  EXPECT_EQ(last.get()->next_distance(), 0);
  // The first data rank has closed the clock; the second one repeats it.
  for (const uint32_t slot : {0, 1}) {
    ASSERT_TRUE(cluster.Progress(*cluster.Order(*job, slot), 2).ok());
  }
  cluster.Die(*cluster.Order(*job, 3));
  cluster.Pass(absl::Seconds(10));
  cluster.MeetAll(*job);
  cluster.Pass(absl::Seconds(10));
  last = tell(2);
  ASSERT_TRUE(last.came());
  EXPECT_TRUE(last.get().ok()) << last.get().status();
}

INSTANTIATE_TEST_SUITE_P(Roads, VerifiedStepsTest,
                         testing::Values(VerifiedRoad::kServers, VerifiedRoad::kAllReduce));

}  // namespace
}  // namespace muster
