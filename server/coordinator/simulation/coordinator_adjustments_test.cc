// Decisions for a running job are made once, for all its tasks, whoever is lost.
#include <string>

#include "absl/time/time.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

enum class Road { kServers, kAllReduce };

class AdjustmentsTest : public testing::TestWithParam<Road> {
 protected:
  AdjustmentsTest() {
    cluster_.AddServer("s0");
    for (const char* worker : {"w0", "w1", "w2"}) cluster_.AddWorker(worker);
    v1::JobSpec spec = GetParam() == Road::kServers ? SmallJob() : AllReduceJob();
    spec.mutable_evaluation()->set_every_steps(1);
    spec.mutable_evaluation()->set_metric("accuracy");
    spec.mutable_checkpoint()->set_every_steps(1);
    v1::PlateauSpec& plateau = *spec.mutable_schedule()->mutable_plateau();
    plateau.set_patience(1);
    plateau.set_factor(0.5);
    spec_ = spec;
    job_ = *cluster_.Submit(spec);
    cluster_.MeetAll(job_);
  }

  // Makes the steps up to `clock`, each with an evaluation of the same value, and asks after each.
  // Returns the last answer.
  absl::StatusOr<v1::AdjustReply> TrainTo(uint64_t clock) {
    absl::StatusOr<v1::AdjustReply> last = absl::UnknownError("no step");
    while (made_ < clock) {
      ++made_;
      cluster_.ProgressAll(job_, made_);
      cluster_.EvaluateAll(job_, made_);
      last = cluster_.AdjustAll(job_, made_);
    }
    return last;
  }

  // Goes on to a clock at which the next decision lowers the rate, without asking there.
  void TrainToDecision() {
    ASSERT_TRUE(TrainTo(2).ok());
    made_ = 3;
    cluster_.ProgressAll(job_, made_);
    cluster_.EvaluateAll(job_, made_);
  }

  v1::TaskOrder Order(uint32_t slot) { return *cluster_.Order(job_, slot); }
  const v1::JobStatus Status() { return cluster_.Status(job_); }

  static void ExpectOneAt3(const absl::StatusOr<v1::AdjustReply>& reply) {
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->adjustments_size(), 1);
    EXPECT_EQ(reply->adjustments(0).clock(), 3u);
    EXPECT_EQ(reply->adjustments(0).rate_factor(), 0.5);
  }

  SimulatedCluster cluster_;
  v1::JobSpec spec_;
  std::string job_;
  uint64_t made_ = 0;
};

TEST_P(AdjustmentsTest, AllTasksAreToldWhatWasDecidedOnce) {
  EXPECT_EQ(TrainTo(2)->adjustments_size(), 0);
  ExpectOneAt3(TrainTo(3));
  ASSERT_EQ(Status().adjustments_size(), 1);
  EXPECT_THAT(Status().adjustments(0).reason(), HasSubstr("no better than at step 1"));
  EXPECT_TRUE(cluster_.HasEvent(
      job_, "from step 3 on the learning rate is 0.5 times the scheduled one: 2 evaluations"));
  const absl::StatusOr<v1::AdjustReply> later = TrainTo(5);
  ASSERT_EQ(later->adjustments_size(), 2) << "counts anew";
  EXPECT_EQ(later->adjustments(1).rate_factor(), 0.25);
}

TEST_P(AdjustmentsTest, ATaskWaitsForTheOthersAndARepeatGetsTheSameAnswer) {
  TrainToDecision();
  const Answer<v1::AdjustReply> first = cluster_.Adjust(Order(0), 3);
  EXPECT_FALSE(first.came());
  ExpectOneAt3(cluster_.Adjust(Order(1), 3).get());
  ExpectOneAt3(first.get());
  ExpectOneAt3(cluster_.Adjust(Order(0), 3).get());
  EXPECT_EQ(cluster_.Adjust(Order(1), 2).get()->adjustments_size(), 1) << "a clock before";
  EXPECT_EQ(Status().adjustments_size(), 1);
}

TEST_P(AdjustmentsTest, ARestartBetweenDecisionAndAnswerDecidesNothingElse) {
  TrainToDecision();
  ASSERT_FALSE(cluster_.Adjust(Order(0), 3).came());
  // Before the decision: those who waited ask again.
  cluster_.RestartCoordinator();
  cluster_.Pass(absl::Seconds(1));
  if (GetParam() == Road::kAllReduce) {
    // The round is over with the coordinator that knew of it only if its tasks say so.
    EXPECT_FALSE(cluster_.Adjust(Order(0), 3).came());
  }
  ExpectOneAt3(cluster_.AdjustAll(job_, 3));
  // After it: nobody has heard the answer.
  cluster_.RestartCoordinator();
  cluster_.Pass(absl::Seconds(1));
  ExpectOneAt3(cluster_.Adjust(Order(1), 3).get());
  EXPECT_EQ(Status().adjustments_size(), 1);
}

TEST_P(AdjustmentsTest, WhatCannotBeStoredIsNotTold) {
  TrainToDecision();
  cluster_.store.failing = true;
  const Answer<v1::AdjustReply> first = cluster_.Adjust(Order(0), 3);
  EXPECT_EQ(cluster_.Adjust(Order(1), 3).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(first.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Status().adjustments_size(), 0);
  cluster_.store.failing = false;
  ExpectOneAt3(cluster_.AdjustAll(job_, 3));
}

TEST_P(AdjustmentsTest, ATaskThatTakesAnothersPlaceIsTold) {
  ExpectOneAt3(TrainTo(3));
  cluster_.Die(Order(1));
  cluster_.Pass(absl::Seconds(10));
  ASSERT_NE(cluster_.Order(job_, 1), nullptr);
  v1::RendezvousReply told;
  if (GetParam() == Road::kServers) {
    told = *cluster_.Rendezvous(Order(1)).get();
  } else {
    cluster_.on_round = [&told](const v1::TaskOrder&, uint64_t, const v1::RendezvousReply& reply) {
      told = reply;
    };
    cluster_.MeetAll(job_);
    cluster_.Pass(absl::Seconds(10));
  }
  ASSERT_EQ(told.adjustments_size(), 1);
  EXPECT_EQ(told.adjustments(0).rate_factor(), 0.5);
  // It repeats the clock at which the others have been told.
  ExpectOneAt3(cluster_.Adjust(Order(1), 3).get());
}

TEST_P(AdjustmentsTest, ATaskThatIsLostBeforeTheDecisionIsWaitedFor) {
  TrainToDecision();
  const Answer<v1::AdjustReply> first = cluster_.Adjust(Order(0), 3);
  cluster_.Die(Order(1));
  cluster_.Pass(absl::Seconds(10));
  if (GetParam() == Road::kServers) {
    EXPECT_FALSE(first.came());
    ASSERT_TRUE(cluster_.Rendezvous(Order(1)).get().ok());
    ExpectOneAt3(cluster_.Adjust(Order(1), 3).get());
    ExpectOneAt3(first.get());
    return;
  }
  EXPECT_EQ(first.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(cluster_.Adjust(Order(0), 3).status().code(), absl::StatusCode::kCancelled);
  cluster_.MeetAll(job_);
  cluster_.Pass(absl::Seconds(10));
  ExpectOneAt3(cluster_.AdjustAll(job_, 3));
}

TEST_P(AdjustmentsTest, ARollBackForgetsWhatWasDecidedBehindIt) {
  ExpectOneAt3(TrainTo(3));
  for (uint32_t slot : {0, 1}) cluster_.Checkpoint(Order(slot), 3);
  ASSERT_EQ(TrainTo(5)->adjustments_size(), 2);
  cluster_.End(Order(0), static_cast<int>(absl::StatusCode::kDataLoss), "lost",
               v1::TaskReport::SERVER_STATE);
  cluster_.Pass(absl::Seconds(10));
  ASSERT_EQ(Status().generation(), 2u);
  ASSERT_EQ(Status().adjustments_size(), 1) << "that at the checkpoint's clock stays";
  EXPECT_EQ(Status().adjustments(0).clock(), 3u);
  cluster_.MeetAll(job_);
  made_ = 3;
  cluster_.ProgressAll(job_, made_);
  ExpectOneAt3(cluster_.AdjustAll(job_, 3));
  ASSERT_EQ(TrainTo(5)->adjustments_size(), 2) << "the same is decided again";
}

TEST_P(AdjustmentsTest, AJobThatResumesGoesOnWithIt) {
  ExpectOneAt3(TrainTo(3));
  for (uint32_t slot : {0, 1}) cluster_.Checkpoint(Order(slot), 3);
  ASSERT_EQ(TrainTo(5)->adjustments_size(), 2);
  cluster_.Finish(job_);
  v1::JobSpec resumed = spec_;
  resumed.set_resume_from(job_);
  resumed.mutable_stop()->set_steps(20);
  const absl::StatusOr<std::string> second = cluster_.Submit(resumed);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ(cluster_.Status(*second).adjustments_size(), 2);
  v1::JobSpec afresh = spec_;
  afresh.set_initial_weights(job_);
  EXPECT_EQ(cluster_.Status(*cluster_.Submit(afresh)).adjustments_size(), 0);
}

INSTANTIATE_TEST_SUITE_P(Roads, AdjustmentsTest, testing::Values(Road::kServers, Road::kAllReduce));

}  // namespace
}  // namespace muster
