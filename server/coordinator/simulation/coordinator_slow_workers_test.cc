// Workers that stay slow, and jobs that leave them (JobSpec.replace_slow).
#include <cstdint>
#include <map>
#include <string>

#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/requests/coordinator_options.h"
#include "server/coordinator/scheduling/slow_workers.h"
#include "server/coordinator/simulation/all_reduce_test_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class SlowWorkersTest : public AllReduceTest {
 protected:
  v1::JobSpec ReplaceSlow(uint32_t workers, uint32_t min_workers = 0) {
    v1::JobSpec spec = Job(workers, min_workers);
    spec.set_replace_slow(true);
    spec.mutable_stop()->set_steps(kSteps);
    return spec;
  }

  static constexpr uint64_t kSteps = 100000;

  void MeetAll(const std::string& job) {
    for (const v1::TaskOrder& order : cluster_.Orders(job)) cluster_.Rendezvous(order, kSteps);
  }

  std::string Running(const v1::JobSpec& spec) {
    const std::string job = *cluster_.Submit(spec);
    MeetAll(job);
    cluster_.ProgressAll(job, 3);
    EXPECT_EQ(cluster_.State(job), v1::RUNNING) << cluster_.Status(job).waiting_for();
    return job;
  }

  // All slots make a step every two seconds for so long; slow_ says how many times as long each
  // computes.
  void Train(const std::string& job, absl::Duration time) {
    for (absl::Duration passed; passed < time; passed += absl::Seconds(2)) {
      ++clock_;
      for (const v1::TaskOrder& order : cluster_.Orders(job)) {
        v1::ReportProgressRequest report;
        *report.mutable_task() = SimulatedCluster::Identity(order);
        report.set_clock(clock_);
        report.set_steps(1);
        report.set_examples(4);
        report.set_training_seconds(2);
        const auto slow = slow_.find(order.slot());
        report.set_compute_seconds(slow == slow_.end() ? 0.5 : 0.5 * slow->second);
        const auto reply = cluster_.coordinator().tasks().ReportProgress(report);
        ASSERT_TRUE(reply.ok()) << reply.status();
        meets_after_ = reply->meet_after_round();
      }
      cluster_.Pass(absl::Seconds(2));
    }
  }

  // The tasks do as they are told: all meet, and the slot's next task, too.
  void Meet(const std::string& job) {
    MeetAll(job);
    cluster_.Pass(absl::Milliseconds(100));
    MeetAll(job);
    cluster_.Pass(absl::Milliseconds(100));
  }

  uint64_t clock_ = 3;
  uint64_t meets_after_ = 0;
  // Factors by slot.
  std::map<uint32_t, double> slow_;
};

TEST_F(SlowWorkersTest, AWorkerThatStaysSlowIsLeftAfterAStep) {
  AddWorkers(4);
  const std::string job = Running(ReplaceSlow(3));
  const std::string slow = Worker(job, 1);
  slow_[1] = 2.1;
  Train(job, CoordinatorOptions().slow_after - absl::Seconds(2));
  EXPECT_TRUE(cluster_.Status(job).left_workers().empty()) << "it may be a pause";
  Train(job, absl::Seconds(16));
  EXPECT_GT(meets_after_, 0) << "all are to meet after their step";
  EXPECT_EQ(Worker(job, 1), slow) << "its task finishes the step";
  Meet(job);
  const v1::JobStatus status = cluster_.Status(job);
  EXPECT_NE(status.tasks(1).worker_id(), slow);
  EXPECT_EQ(status.generation(), 1) << "nothing is made again";
  ASSERT_EQ(status.left_workers_size(), 1);
  EXPECT_EQ(status.left_workers(0).worker_id(), slow);
  EXPECT_EQ(status.left_workers(0).reason(),
            "computed 2.1 x as long for an example as the median slot");
  EXPECT_TRUE(cluster_.HasEvent(job, "leaves worker " + slow + ", which computed 2.1 x"));
  EXPECT_TRUE(cluster_.HasEvent(
      job, "slot 1 leaves worker " + slow + ", which the job has left, at clock"));
}

TEST_F(SlowWorkersTest, TheJobDoesNotComeBackAfterRestarts) {
  AddWorkers(4);
  const std::string job = Running(ReplaceSlow(3));
  const std::string slow = Worker(job, 1);
  slow_[1] = 3;
  Train(job, absl::Seconds(46));
  Meet(job);
  cluster_.RestartDaemon(slow);
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  cluster_.Pass(absl::Seconds(1));
  const std::string next = Worker(job, 0);
  Kill(next);
  EXPECT_TRUE(cluster_.daemon(slow).orders.tasks().empty());
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("beside those of " + slow));
  EXPECT_EQ(cluster_.Status(job).left_workers_size(), 1);
}

TEST_F(SlowWorkersTest, WithoutAFreeSlotItWaitsForOne) {
  AddWorkers(3);
  const std::string job = Running(ReplaceSlow(3));
  const std::string slow = Worker(job, 2);
  slow_[2] = 2;
  Train(job, absl::Seconds(60));
  EXPECT_TRUE(cluster_.Status(job).left_workers().empty());
  EXPECT_EQ(meets_after_, 0);
  EXPECT_EQ(cluster_.Status(job).waiting_for(),
            "a free slot to leave worker " + slow +
                ", which computes 2.0 x as long for an example as the median slot");
  cluster_.AddWorker("w9");
  Train(job, absl::Seconds(4));
  EXPECT_EQ(cluster_.Status(job).left_workers_size(), 1);
  Meet(job);
  EXPECT_EQ(Worker(job, 2), "w9");
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "");
}

TEST_F(SlowWorkersTest, WhoIsFastAgainStaysAndSoDoesAJobThatDoesNotAsk) {
  AddWorkers(4);
  v1::JobSpec spec = ReplaceSlow(3);
  const std::string job = Running(spec);
  slow_[0] = 2;
  Train(job, absl::Seconds(24));
  slow_.clear();
  Train(job, absl::Seconds(12));
  slow_[0] = 2;
  Train(job, absl::Seconds(30));
  EXPECT_TRUE(cluster_.Status(job).left_workers().empty());
  cluster_.Finish(job, kSteps);

  clock_ = 3;
  spec.set_replace_slow(false);
  const std::string other = Running(spec);
  Train(other, absl::Seconds(120));
  EXPECT_EQ(cluster_.Status(other).slow_slots_size(), 1);
  EXPECT_TRUE(cluster_.Status(other).left_workers().empty());
}

TEST_F(SlowWorkersTest, OneWorkerAtATimeAndAThirdAtMost) {
  AddWorkers(7);
  const std::string job = Running(ReplaceSlow(5));
  const std::string first = Worker(job, 1), second = Worker(job, 3);
  slow_[1] = slow_[3] = 2;
  Train(job, absl::Seconds(46));
  ASSERT_EQ(cluster_.Status(job).left_workers_size(), 1);
  Meet(job);
  slow_.erase(cluster_.Status(job).left_workers(0).worker_id() == first ? 1 : 3);
  Train(job, SlowWorkers::kPause - absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job).left_workers_size(), 1);
  Train(job, absl::Seconds(12));
  ASSERT_EQ(cluster_.Status(job).left_workers_size(), 2);
  Meet(job);
  slow_ = {{0, 2}};
  cluster_.AddWorker("w9");
  Train(job, SlowWorkers::kPause + absl::Seconds(40));
  EXPECT_EQ(cluster_.Status(job).left_workers_size(), 2) << "that are two of eight";
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("the job has left 2 of 8"));
  EXPECT_THAT(cluster_.Status(job).left_workers(0).worker_id() +
                  cluster_.Status(job).left_workers(1).worker_id(),
              ::testing::AnyOf(first + second, second + first));
}

TEST_F(SlowWorkersTest, AWorkerIsSlowIfAllItsSlotsAre) {
  cluster_.AddWorker("w0", 2);
  cluster_.AddWorker("w1", 2);
  cluster_.AddWorker("w2", 1);
  const std::string job = Running(ReplaceSlow(4));
  std::string host = Worker(job, 0);
  std::vector<uint32_t> slots;
  for (uint32_t slot = 0; slot < 4; ++slot) {
    if (Worker(job, slot) == "w0") slots.push_back(slot);
  }
  ASSERT_EQ(slots.size(), 2);
  slow_[slots[0]] = 2;
  Train(job, absl::Seconds(60));
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "") << "its other slot is not slow";
  slow_[slots[1]] = 2;
  Train(job, absl::Seconds(60));
  EXPECT_THAT(cluster_.Status(job).waiting_for(),
              HasSubstr("1 more free slots to leave worker w0"));
  cluster_.AddWorker("w3", 1);
  Train(job, absl::Seconds(4));
  Meet(job);
  EXPECT_NE(Worker(job, slots[0]), "w0");
  EXPECT_NE(Worker(job, slots[1]), "w0");
}

TEST_F(SlowWorkersTest, OnServersTheTaskEndsAfterItsStep) {
  cluster_.AddServer("s0");
  AddWorkers(3);
  v1::JobSpec spec = SmallJob();
  spec.set_replace_slow(true);
  spec.mutable_stop()->set_steps(kSteps);
  const std::string job = Running(spec);
  const std::string slow = Worker(job, 1);
  slow_[1] = 2;
  Train(job, absl::Seconds(46));
  EXPECT_EQ(meets_after_, 1);
  const v1::TaskOrder before = Order(job, 1);
  cluster_.End(before, static_cast<int>(absl::StatusCode::kCancelled), "leaves after its step");
  cluster_.Pass(absl::Milliseconds(100));
  EXPECT_NE(Worker(job, 1), slow);
  EXPECT_EQ(cluster_.Status(job).generation(), 1);
}

}  // namespace
}  // namespace muster
