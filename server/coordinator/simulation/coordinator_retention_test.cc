// Which ended jobs the coordinator keeps, what goes with those that it does not, and how long it
// orders servers to drop what they hold of them.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CoordinatorRetentionTest : public ::testing::Test {
 protected:
  CoordinatorRetentionTest() {
    options_.log = [this](absl::string_view line) { log_.emplace_back(line); };
  }

  // A cluster of these options.
  SimulatedCluster& Start() {
    cluster_ = std::make_unique<SimulatedCluster>(options_);
    cluster_->AddServer("s0");
    cluster_->AddWorker("w0", 2);
    return *cluster_;
  }

  std::string Train() {
    const std::string job = *cluster_->Submit(SmallJob());
    cluster_->Finish(job);
    cluster_->Pass(absl::Seconds(1));
    return job;
  }

  std::string Evaluate() {
    v1::JobSpec spec = SmallJob();
    spec.clear_stop();
    spec.mutable_stop()->set_evaluate_only(true);
    const std::string job = *cluster_->Submit(spec);
    for (const auto& order : cluster_->Orders(job)) cluster_->Rendezvous(order, 0);
    cluster_->EvaluateAll(job, 0);
    cluster_->EndAll(job);
    cluster_->Pass(absl::Seconds(1));
    return job;
  }

  std::vector<std::string> Left() {
    const v1::ListJobsReply reply = *cluster_->coordinator().jobs().List({});
    std::vector<std::string> ids;
    for (const v1::JobStatus& job : reply.jobs()) ids.push_back(job.job_id());
    return ids;
  }

  size_t StoredRows() {
    size_t rows = 0;
    for (const StoreTable table :
         {StoreTable::kStore, StoreTable::kJobs, StoreTable::kEvents, StoreTable::kLogs,
          StoreTable::kDaemons, StoreTable::kDrops, StoreTable::kDrains}) {
      EXPECT_TRUE(cluster_->store
                      .Scan(table, "",
                            [&rows](absl::string_view, absl::string_view) {
                              ++rows;
                              return absl::OkStatus();
                            })
                      .ok());
    }
    return rows;
  }

  CoordinatorOptions options_;
  std::vector<std::string> log_;
  std::unique_ptr<SimulatedCluster> cluster_;
};

TEST_F(CoordinatorRetentionTest, AJobWithCheckpointsStaysUntilItIsDeleted) {
  SimulatedCluster& cluster = Start();
  const std::string first = Train();
  std::vector<std::string> jobs = {first};
  for (int i = 0; i < 120; ++i) jobs.push_back(Train());
  EXPECT_EQ(Left(), jobs);
  EXPECT_EQ(cluster.archive.folders.size(), jobs.size());
  for (int i = 0; i < 110; ++i) Evaluate();
  EXPECT_EQ(cluster.archive.folders.size(), jobs.size());
  EXPECT_EQ(cluster.State(first), v1::SUCCEEDED);
  cluster.RestartCoordinator();
  cluster.Pass(absl::Seconds(1));
  EXPECT_EQ(cluster.Status(first).checkpoint_clock(), 10);
}

TEST_F(CoordinatorRetentionTest, ThousandsOfEvaluationsLeaveNoMoreThanThoseKept) {
  options_.ended_without_checkpoint_kept = 5;
  SimulatedCluster& cluster = Start();
  const std::string trained = Train();
  for (int i = 0; i < 20; ++i) Evaluate();
  const size_t rows = StoredRows();
  log_.clear();
  std::vector<std::string> kept = {trained};
  for (int i = 0; i < 300; ++i) {
    const std::string job = Evaluate();
    if (i >= 295) kept.push_back(job);
  }
  EXPECT_EQ(Left(), kept);
  EXPECT_EQ(StoredRows(), rows);
  EXPECT_EQ(cluster.archive.folders.size(), 1);
  ASSERT_EQ(log_.size(), 300);
  EXPECT_THAT(log_.back(), AllOf(HasSubstr("SUCCEEDED"), HasSubstr("is retired"),
                                 HasSubstr("--keep-jobs-without-checkpoint")));
  EXPECT_THAT(cluster.coordinator().jobs().Metrics().text(),
              HasSubstr("muster_jobs_retired_total 315"));
}

TEST_F(CoordinatorRetentionTest, AJobWhoseCheckpointsWereDeletedCountsAmongThoseWithout) {
  options_.ended_without_checkpoint_kept = 0;
  SimulatedCluster& cluster = Start();
  const std::string job = Train();
  v1::DeleteCheckpointRequest request;
  request.set_job_id(job);
  request.set_clock(10);
  Answer<v1::DeleteCheckpointReply> deleted;
  cluster.coordinator().checkpoints().Delete(request, deleted.call());
  cluster.Pass(absl::Seconds(1));
  ASSERT_TRUE(deleted.status().ok());
  EXPECT_THAT(Left(), IsEmpty());
}

TEST_F(CoordinatorRetentionTest, ALimitThatIsAskedForDeletesTheOldestWithTheirCheckpoints) {
  options_.ended_with_checkpoints_kept = 2;
  SimulatedCluster& cluster = Start();
  const std::string evaluation = Evaluate();
  std::vector<std::string> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(Train());
  EXPECT_THAT(Left(), ElementsAre(evaluation, jobs[2], jobs[3]));
  EXPECT_EQ(cluster.archive.folders.size(), 2);
  ASSERT_EQ(log_.size(), 2);
  EXPECT_THAT(log_[0], AllOf(HasSubstr(jobs[0]), HasSubstr("(--keep-jobs)")));
}

TEST_F(CoordinatorRetentionTest, WhatCannotBeRetiredIsSaidAndTriedAgainLater) {
  options_.ended_without_checkpoint_kept = 0;
  SimulatedCluster& cluster = Start();
  cluster.archive.next_error = absl::UnavailableError("the disk is gone");
  const std::string job = Evaluate();
  EXPECT_EQ(Left(), std::vector<std::string>{job});
  ASSERT_EQ(log_.size(), 1);
  EXPECT_THAT(log_[0], AllOf(HasSubstr(job), HasSubstr("the disk is gone")));
  cluster.Pass(absl::Seconds(30));
  EXPECT_EQ(Left().size(), 1);
  cluster.Pass(absl::Seconds(31));
  EXPECT_THAT(Left(), IsEmpty());
}

class DropOrdersTest : public ::testing::Test {
 protected:
  DropOrdersTest() {
    CoordinatorOptions options;
    options.log = [this](absl::string_view line) { log_.emplace_back(line); };
    cluster_ = std::make_unique<SimulatedCluster>(options);
    for (const char* id : {"s0", "s1"}) cluster_->AddServer(id);
    for (const char* id : {"w0", "w1"}) cluster_->AddWorker(id);
  }

  std::string Running() {
    const std::string job = *cluster_->Submit(SmallJob());
    cluster_->MeetAll(job);
    EXPECT_EQ(cluster_->State(job), v1::RUNNING);
    return job;
  }

  std::vector<std::string> log_;
  std::unique_ptr<SimulatedCluster> cluster_;
};

TEST_F(DropOrdersTest, ADropOrderStandsUntilTheServerSaysThatItIsDone) {
  const std::string job = Running();
  cluster_->daemon("s0").cannot_drop = true;
  cluster_->Finish(job);
  cluster_->Pass(absl::Minutes(1));
  EXPECT_EQ(cluster_->daemon("s0").orders.drops_size(), 1);
  EXPECT_THAT(cluster_->coordinator().table().DropsOf("s0"), Not(IsEmpty()));
  EXPECT_THAT(cluster_->coordinator().table().DropsOf("s1"), IsEmpty());
  cluster_->daemon("s0").cannot_drop = false;
  cluster_->Pass(absl::Seconds(2));
  EXPECT_THAT(cluster_->coordinator().table().drops(), IsEmpty());
  EXPECT_EQ(cluster_->daemon("s0").orders.drops_size(), 0);
}

TEST_F(DropOrdersTest, DropOrdersEndForServersThatNeverReturn) {
  const std::string job = Running();
  cluster_->Kill("s0");
  cluster_->Finish(job);
  ASSERT_EQ(cluster_->State(job), v1::SUCCEEDED);
  cluster_->Pass(absl::Seconds(6));
  const auto pass = [&](absl::Duration time) {
    // In leaps, for which the coordinator excuses those that are there.
    for (; time > absl::ZeroDuration(); time -= absl::Minutes(10)) {
      cluster_->clock.Advance(absl::Minutes(10));
      cluster_->coordinator().Tick().IgnoreError();
      cluster_->BeatAll();
    }
  };
  pass(absl::Hours(23));
  EXPECT_THAT(cluster_->coordinator().table().drops(), Not(IsEmpty()));
  pass(absl::Hours(2));
  EXPECT_THAT(cluster_->coordinator().table().drops(), IsEmpty());
  EXPECT_THAT(log_, ElementsAre(HasSubstr("server s0 has been gone for 24h")));
  // It comes back after all, and says what it holds, of this job and of others.
  cluster_->AddServer("s0").held_jobs = {job, "bench", "j1-ffff"};
  cluster_->BeatAll();
  EXPECT_THAT(cluster_->daemon("s0").dropped, ElementsAre(job));
  cluster_->BeatAll();
  EXPECT_THAT(cluster_->coordinator().table().drops(), IsEmpty());
}

TEST_F(DropOrdersTest, WhatAServerHoldsOfAForgottenJobIsDropped) {
  const std::string job = Running();
  cluster_->Finish(job);
  const std::string other = Running();
  const std::string waiting = *cluster_->Submit(SmallJob());
  ASSERT_EQ(cluster_->State(waiting), v1::PENDING);
  cluster_->Pass(absl::Seconds(2));
  ASSERT_THAT(cluster_->coordinator().table().drops(), IsEmpty());
  Answer<v1::DeleteJobReply> deleted;
  cluster_->coordinator().jobs().Delete(job, deleted.call());
  cluster_->Run();
  ASSERT_TRUE(deleted.status().ok()) << deleted.status();
  cluster_->daemon("s0").dropped.clear();
  // Neither a job that is not over, nor one that this store has yet to give out.
  const std::string later = absl::StrCat("j99", job.substr(job.find('-')));
  cluster_->daemon("s0").held_jobs = {job, other, waiting, later};
  cluster_->BeatAll();
  cluster_->BeatAll();
  EXPECT_THAT(cluster_->daemon("s0").dropped, ElementsAre(job));
  EXPECT_THAT(cluster_->daemon("s0").held_jobs, ElementsAre(other, waiting, later));
}

}  // namespace
}  // namespace muster
