// The life of jobs on a cluster where nothing is lost.
#include "server/coordinator/coordinator.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/test_jobs.h"
#include "common/rpc/membership/protocol.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CoordinatorTest : public ::testing::Test {
 protected:
  void StartDaemons() {
    cluster_.AddServer("s0");
    cluster_.AddServer("s1");
    cluster_.AddWorker("w0");
    cluster_.AddWorker("w1");
  }

  // Registers a worker with nothing behind it.
  void Register(const std::string& id, uint64_t nonce, Answer<v1::RegisterDaemonReply>& answer,
                const std::string& address = "") {
    v1::RegisterDaemonRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_kind(v1::WORKER);
    request.set_id(id);
    request.set_process_nonce(nonce);
    request.set_address(address.empty() ? absl::StrCat(id, ":1") : address);
    request.set_slots(1);
    cluster_.coordinator().daemons().Register(request, answer.call());
  }

  SimulatedCluster cluster_;
};

TEST_F(CoordinatorTest, RunsAJobFromSubmitToSuccess) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  EXPECT_EQ(cluster_.State(job), v1::PLACING);
  ASSERT_EQ(cluster_.Orders(job).size(), 2);

  const v1::TaskOrder order = *cluster_.Order(job, 0);
  EXPECT_EQ(order.generation(), 1);
  EXPECT_EQ(order.incarnation(), 1);
  EXPECT_EQ(order.restore_uri(), "");
  EXPECT_FALSE(order.expect_state());
  EXPECT_EQ(order.checkpoint_root(), "/checkpoints");
  ASSERT_EQ(order.shard_map().partitions_size(), 2);
  EXPECT_EQ(order.shard_map().partitions(0).replicas(0).address(), "s0:1");
  EXPECT_EQ(order.shard_map().partitions(1).replicas(0).address(), "s1:1");

  auto first = cluster_.Rendezvous(*cluster_.Order(job, 0));
  EXPECT_FALSE(first.came()) << "parked until the other slot comes";
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("1 of 2 tasks are there"));
  auto second = cluster_.Rendezvous(*cluster_.Order(job, 1));
  EXPECT_TRUE(first.status().ok());
  EXPECT_TRUE(second.status().ok());
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);

  cluster_.ProgressAll(job, 5);
  EXPECT_EQ(cluster_.Status(job).progress().step(), 5);
  EXPECT_EQ(cluster_.Status(job).progress().total_steps(), 10);
  EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 10).status().ok());
  cluster_.EvaluateAll(job, 10);
  cluster_.EndAll(job);

  const v1::JobStatus status = cluster_.Status(job);
  EXPECT_EQ(status.state(), v1::SUCCEEDED);
  EXPECT_EQ(status.checkpoint_clock(), 10);
  ASSERT_EQ(status.evaluations_size(), 1);
  EXPECT_DOUBLE_EQ(status.evaluations(0).value(), 0.5);
  EXPECT_THAT(cluster_.Orders(job), IsEmpty());
  // Servers are told to drop the tables, until they have.
  EXPECT_THAT(cluster_.daemon("s0").dropped, testing::Contains(job));
  EXPECT_THAT(cluster_.daemon("s1").dropped, testing::Contains(job));
  cluster_.Pass(absl::Seconds(2));
  EXPECT_THAT(cluster_.daemon("s0").orders.drops(), IsEmpty());
}

TEST_F(CoordinatorTest, AHeartbeatIsAnsweredAtOnceUnlessPlacementsAreDue) {
  StartDaemons();
  v1::HeartbeatRequest request;
  request.set_id("w0");
  request.set_incarnation(cluster_.daemon("w0").incarnation);
  request.set_seen_orders_version(cluster_.daemon("w0").seen_version);
  request.set_poll_ms(1000);
  const auto beat = [&] {
    Answer<v1::HeartbeatReply> answer;
    cluster_.coordinator().daemons().Heartbeat(request, answer.call());
    return answer;
  };
  const Answer<v1::HeartbeatReply> same = beat();
  EXPECT_FALSE(same.came()) << "its orders are those that it has seen";
  request.set_seen_orders_version(1);
  EXPECT_TRUE(beat().came());
  EXPECT_TRUE(absl::IsCancelled(same.status())) << "a later heartbeat came";

  v1::DrainServerRequest drain;
  drain.set_server_id("s0");
  ASSERT_TRUE(cluster_.coordinator().moves().Drain(drain).ok());
  const Answer<v1::HeartbeatReply> during = beat();
  EXPECT_FALSE(during.came()) << "a record has changed, so placements are due";
  cluster_.Run();
  EXPECT_TRUE(during.status().ok()) << during.status();
}

TEST_F(CoordinatorTest, DaemonsThatRegisterTogetherCostOneSync) {
  constexpr int kDaemons = 50;
  std::vector<Answer<v1::RegisterDaemonReply>> answers(kDaemons);
  const int before = cluster_.store.syncs;
  for (int i = 0; i < kDaemons; ++i) Register(absl::StrCat("w", i), /*nonce=*/1, answers[i]);
  EXPECT_FALSE(answers.front().came()) << "nothing is stored yet";
  cluster_.Run();
  EXPECT_EQ(cluster_.store.syncs - before, 1);
  std::set<uint64_t> incarnations;
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer.status().ok()) << answer.status();
    incarnations.insert(answer.get()->incarnation());
  }
  EXPECT_EQ(incarnations.size(), kDaemons);
  cluster_.RestartCoordinator();
  for (int i = 0; i < kDaemons; ++i) {
    EXPECT_TRUE(cluster_.coordinator().members().Holds(absl::StrCat("w", i),
                                                       answers[i].get()->incarnation()));
  }
  Answer<v1::RegisterDaemonReply> next;
  Register("w0", /*nonce=*/2, next);
  cluster_.Run();
  ASSERT_TRUE(next.status().ok()) << next.status();
  EXPECT_FALSE(incarnations.contains(next.get()->incarnation()));
}

TEST_F(CoordinatorTest, DaemonsThatCannotBeStoredHaveNotRegistered) {
  std::vector<Answer<v1::RegisterDaemonReply>> answers(3);
  cluster_.store.failing = true;
  for (int i = 0; i < 3; ++i) Register(absl::StrCat("w", i), /*nonce=*/1, answers[i]);
  EXPECT_TRUE(absl::IsUnavailable(cluster_.coordinator().Settle()));
  for (const auto& answer : answers) EXPECT_TRUE(absl::IsUnavailable(answer.status()));
  EXPECT_TRUE(cluster_.coordinator().members().members().empty());
  cluster_.store.failing = false;
  for (int i = 0; i < 3; ++i) Register(absl::StrCat("w", i), /*nonce=*/1, answers[i] = {});
  cluster_.Run();
  for (const auto& answer : answers) EXPECT_TRUE(answer.status().ok()) << answer.status();
}

TEST_F(CoordinatorTest, OneDaemonsRegistrationsAreDecidedOneAfterTheOther) {
  Answer<v1::RegisterDaemonReply> first, again, other;
  Register("w0", /*nonce=*/1, first);
  Register("w0", /*nonce=*/1, again);
  Register("w0", /*nonce=*/2, other, "elsewhere:1");
  cluster_.Run();
  ASSERT_TRUE(first.status().ok()) << first.status();
  ASSERT_TRUE(again.status().ok()) << again.status();
  EXPECT_EQ(first.get()->incarnation(), again.get()->incarnation()) << "it is the same process";
  EXPECT_TRUE(absl::IsAlreadyExists(other.status())) << other.status();
}

TEST_F(CoordinatorTest, ADaemonThatRegistersAsItsLeaseEndsKeepsIt) {
  Answer<v1::RegisterDaemonReply> first, again;
  Register("w0", /*nonce=*/1, first);
  cluster_.Run();
  cluster_.clock.Advance(kLease / 8);
  ASSERT_TRUE(cluster_.coordinator().Tick().ok());
  cluster_.clock.Advance(kLease - kLease / 8);
  Register("w0", /*nonce=*/1, again);
  ASSERT_TRUE(cluster_.coordinator().Tick().ok());
  ASSERT_TRUE(again.status().ok()) << again.status();
  EXPECT_EQ(again.get()->incarnation(), first.get()->incarnation());
}

TEST_F(CoordinatorTest, DaemonsThatAreLostTogetherCostOneSync) {
  std::vector<Answer<v1::RegisterDaemonReply>> answers(50);
  for (size_t i = 0; i < answers.size(); ++i) {
    Register(absl::StrCat("w", i), /*nonce=*/1, answers[i]);
  }
  cluster_.Run();
  const int before = cluster_.store.syncs;
  cluster_.Pass(2 * kLease);
  EXPECT_FALSE(cluster_.coordinator().members().Find("w0")->live);
  EXPECT_FALSE(cluster_.coordinator().members().Find("w49")->live);
  EXPECT_EQ(cluster_.store.syncs - before, 1);
}

TEST_F(CoordinatorTest, AJobThatEndsWithoutItsFinalCheckpointFails) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  cluster_.EndAll(job);
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("without a checkpoint at clock 10"));
}

TEST_F(CoordinatorTest, AnEvaluationNeedsNoCheckpoint) {
  StartDaemons();
  v1::JobSpec spec = SmallJob();
  spec.clear_stop();
  spec.mutable_stop()->set_evaluate_only(true);
  const std::string job = *cluster_.Submit(spec);
  for (const auto& order : cluster_.Orders(job)) cluster_.Rendezvous(order, 0);
  cluster_.EvaluateAll(job, 0);
  cluster_.EndAll(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);
}

TEST_F(CoordinatorTest, TwoJobsRunSideBySide) {
  cluster_.AddServer("s0");
  cluster_.AddWorker("w0", 4);
  const std::string a = *cluster_.Submit(SmallJob());
  const std::string b = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(a);
  cluster_.MeetAll(b);
  EXPECT_EQ(cluster_.State(a), v1::RUNNING);
  EXPECT_EQ(cluster_.State(b), v1::RUNNING);
  const v1::GetClusterReply reply = cluster_.coordinator().jobs().Cluster();
  for (const v1::DaemonStatus& daemon : reply.daemons()) {
    if (daemon.id() == "w0") {
      EXPECT_EQ(daemon.slots_used(), 4);
    }
    EXPECT_EQ(daemon.partitions(), daemon.id() == "s0" ? 4 : 0);
    EXPECT_GT(daemon.memory_reserved_bytes(), 0);
    EXPECT_EQ(daemon.lost_for_ms(), 0);
  }
  cluster_.Finish(a);
  EXPECT_EQ(cluster_.State(b), v1::RUNNING);
}

TEST_F(CoordinatorTest, SaysForHowLongADaemonHasBeenLost) {
  cluster_.AddWorker("w0");
  cluster_.Kill("w0");
  cluster_.Pass(absl::Seconds(60));
  const v1::GetClusterReply cluster = cluster_.coordinator().Cluster();
  ASSERT_EQ(cluster.daemons_size(), 1);
  EXPECT_FALSE(cluster.daemons(0).live());
  // The lease was another few seconds.
  EXPECT_GT(cluster.daemons(0).lost_for_ms(), 40'000);
  EXPECT_LT(cluster.daemons(0).lost_for_ms(), 60'000);
}

TEST_F(CoordinatorTest, NamesSlowSlotsInShort) {
  cluster_.AddServer("s0");
  cluster_.AddWorker("w0", 3);
  v1::JobSpec spec = SmallJob();
  spec.set_workers(3);
  spec.mutable_stop()->set_steps(100);
  const std::string job = *cluster_.Submit(spec);
  cluster_.MeetAll(job);
  for (uint64_t clock = 1; clock <= 6; ++clock) {
    for (uint32_t slot = 0; slot < 3; ++slot) {
      v1::ReportProgressRequest report;
      report.mutable_task()->set_job_id(job);
      report.mutable_task()->set_generation(1);
      report.mutable_task()->set_slot(slot);
      report.mutable_task()->set_incarnation(1);
      report.set_clock(clock);
      report.set_steps(1);
      report.set_examples(3);
      report.set_training_seconds(2);
      report.set_compute_seconds(slot == 1 ? 2 : 0.5);
      ASSERT_TRUE(cluster_.coordinator().tasks().ReportProgress(report).ok());
    }
    cluster_.Pass(absl::Seconds(2));
  }
  v1::ListJobsRequest request;
  request.set_view(v1::ListJobsRequest::SHORT);
  const v1::JobStatus listed = cluster_.coordinator().jobs().List(request)->jobs(0);
  ASSERT_EQ(listed.slow_slots_size(), 1);
  EXPECT_EQ(listed.slow_slots(0).slot(), 1);
  EXPECT_THAT(listed.slow_slots(0).reason(), testing::HasSubstr("the median slot"));
  const v1::JobStatus whole = cluster_.Status(job);
  EXPECT_EQ(whole.tasks(1).slow(), listed.slow_slots(0).reason());
  EXPECT_EQ(whole.tasks(0).slow(), "");
  EXPECT_GT(whole.tasks(2).last_steps().steps(), 0);
}

TEST_F(CoordinatorTest, DifferentDataFailsTheJobByName) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  auto first = cluster_.Rendezvous(*cluster_.Order(job, 0), 10, 7);
  auto second = cluster_.Rendezvous(*cluster_.Order(job, 1), 10, 8);
  EXPECT_EQ(first.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(),
              AllOf(HasSubstr("slot 0 has data_fingerprint"), HasSubstr("slot 1 has")));
}

TEST_F(CoordinatorTest, AnErrorOfATaskFailsTheJobWithItsMessage) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  cluster_.End(*cluster_.Order(job, 1), static_cast<int>(absl::StatusCode::kOutOfRange),
               "the job diverged at step 4: loss is nan");
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(),
              AllOf(HasSubstr("slot 1"), HasSubstr("diverged at step 4")));
  EXPECT_THAT(cluster_.Orders(job), IsEmpty()) << "the other task is stopped";
}

TEST_F(CoordinatorTest, EvaluationsAreParkedAndSummedOnce) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const v1::TaskOrder a = *cluster_.Order(job, 0), b = *cluster_.Order(job, 1);
  auto first = cluster_.Evaluate(a, 5, 2);
  auto repeated = cluster_.Evaluate(a, 5, 2);
  EXPECT_EQ(first.status().code(), absl::StatusCode::kCancelled);
  auto second = cluster_.Evaluate(b, 5, 6);
  ASSERT_TRUE(second.status().ok());
  ASSERT_TRUE(repeated.status().ok());
  EXPECT_DOUBLE_EQ(second.get()->result().value(), 0.4);
  EXPECT_DOUBLE_EQ(repeated.get()->result().value(), 0.4);
  EXPECT_FALSE(second.get()->stop());
  auto late = cluster_.Evaluate(a, 5, 9);
  ASSERT_TRUE(late.status().ok()) << "answered from the record";
  EXPECT_DOUBLE_EQ(late.get()->result().value(), 0.4);
  EXPECT_EQ(cluster_.Status(job).evaluations_size(), 1);
}

TEST_F(CoordinatorTest, StopsAtTheTarget) {
  StartDaemons();
  v1::JobSpec spec = SmallJob();
  spec.mutable_stop()->set_target(0.8);
  const std::string job = *cluster_.Submit(spec);
  cluster_.MeetAll(job);
  cluster_.EvaluateAll(job, 2, 7);
  const v1::TaskOrder a = *cluster_.Order(job, 0), b = *cluster_.Order(job, 1);
  auto first = cluster_.Evaluate(a, 4, 8);
  auto second = cluster_.Evaluate(b, 4, 8);
  ASSERT_TRUE(first.status().ok());
  EXPECT_TRUE(first.get()->stop());
  EXPECT_TRUE(second.get()->stop());
  EXPECT_TRUE(cluster_.Checkpoint(a, 4).status().ok());
  cluster_.EndAll(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

TEST_F(CoordinatorTest, AMetricWithoutAValueIsAnEventAndNoFailure) {
  StartDaemons();
  v1::JobSpec spec = SmallJob();
  spec.mutable_stop()->set_target(0);
  const std::string job = *cluster_.Submit(spec);
  cluster_.MeetAll(job);
  const auto evaluate = [&](uint64_t clock, char first_label) {
    Answer<v1::ReportEvaluationReply> answer;
    for (const v1::TaskOrder& order : cluster_.Orders(job)) {
      v1::ReportEvaluationRequest request;
      *request.mutable_task() = SimulatedCluster::Identity(order);
      request.set_clock(clock);
      request.set_metric("auc");
      request.set_examples(2);
      request.set_loss_sum(3);
      const float scores[] = {0.25, 0.75};
      request.set_scores(scores, sizeof(scores));
      request.set_labels(std::string{first_label, 1});
      answer = Answer<v1::ReportEvaluationReply>();
      cluster_.coordinator().tasks().ReportEvaluation(request, answer.call());
      cluster_.Run();
    }
    return answer;
  };
  const auto none = evaluate(5, 1);
  ASSERT_TRUE(none.status().ok()) << none.status();
  EXPECT_FALSE(none.get()->stop()) << "reaches no target";
  EXPECT_FALSE(none.get()->result().has_value());
  EXPECT_DOUBLE_EQ(none.get()->result().loss(), 1.5);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_TRUE(cluster_.HasEvent(job,
                                "step 5: loss 1.5 over 4 examples; auc has no value: AUC is "
                                "undefined for 4 positive and 0 negative examples"));
  EXPECT_EQ(cluster_.coordinator().jobs().Metrics().text().find("muster_job_evaluation"),
            std::string::npos)
      << "a gap, not a 0";
  EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 10).status().ok());
  EXPECT_TRUE(evaluate(10, 1).status().ok());
  cluster_.EndAll(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
  EXPECT_EQ(cluster_.Status(job).evaluations_size(), 2);
}

TEST_F(CoordinatorTest, AnEvaluationsConfusionIsInItsJobButNotInLists) {
  StartDaemons();
  v1::JobSpec spec = SmallJob();
  spec.clear_stop();
  spec.mutable_stop()->set_evaluate_only(true);
  const std::string job = *cluster_.Submit(spec);
  for (const v1::TaskOrder& order : cluster_.Orders(job)) cluster_.Rendezvous(order, 0);
  v1::ReportEvaluationRequest share;
  share.set_metric("accuracy");
  share.set_examples(10);
  share.set_correct(7);
  v1::Confusion& confusion = *share.mutable_confusion();
  confusion.set_classes(2);
  for (const char* label : {"no", "yes"}) confusion.add_labels(label);
  for (const uint64_t count : {4, 1, 2, 3}) confusion.add_counts(count);
  const float scores[10] = {};
  share.set_scores(scores, sizeof(scores));
  share.set_labels(std::string(5, 0) + std::string(5, 1));
  for (const v1::TaskOrder& order : cluster_.Orders(job)) {
    *share.mutable_task() = SimulatedCluster::Identity(order);
    Answer<v1::ReportEvaluationReply> answer;
    cluster_.coordinator().tasks().ReportEvaluation(share, answer.call());
    cluster_.Run();
  }
  ASSERT_EQ(cluster_.Status(job).evaluations_size(), 1) << cluster_.Status(job).message();
  const v1::EvaluationResult result = cluster_.Status(job).evaluations(0);
  EXPECT_THAT(result.confusion().counts(), ElementsAre(8, 2, 4, 6));
  EXPECT_EQ(result.auc(), 0.5);
  v1::ListJobsRequest request;
  request.set_view(v1::ListJobsRequest::SHORT);
  const v1::JobStatus listed = cluster_.coordinator().jobs().List(request)->jobs(0);
  EXPECT_EQ(listed.evaluations(0).value(), 0.7);
  EXPECT_FALSE(listed.evaluations(0).has_confusion());
}

TEST_F(CoordinatorTest, DeletesEndedJobsWithAllTheyLeft) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  Answer<v1::DeleteJobReply> running;
  cluster_.coordinator().jobs().Delete(job, running.call());
  EXPECT_EQ(running.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(running.status().message()), HasSubstr("cancel it first"));
  cluster_.Finish(job);

  cluster_.archive.next_error = absl::UnavailableError("disk");
  Answer<v1::DeleteJobReply> failed, deleted, again;
  cluster_.coordinator().jobs().Delete(job, failed.call());
  cluster_.Run();
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << "may be deleted again";
  cluster_.coordinator().jobs().Delete(job, deleted.call());
  cluster_.Run();
  EXPECT_TRUE(deleted.status().ok());
  EXPECT_THAT(cluster_.archive.folders, IsEmpty());
  EXPECT_EQ(cluster_.coordinator().jobs().Get(job).status().code(), absl::StatusCode::kNotFound);
  cluster_.coordinator().jobs().Delete(job, again.call());
  EXPECT_EQ(again.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(again.status().message()),
              AllOf(HasSubstr(job), HasSubstr("muster list")));
  cluster_.RestartCoordinator();
  EXPECT_EQ(cluster_.coordinator().jobs().Get(job).status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(*cluster_.Submit(SmallJob()), job) << "ids never return";
}

TEST_F(CoordinatorTest, ADescriptionIsReplacedWhileAJobRunsAndAfterItsEnd) {
  StartDaemons();
  v1::JobSpec spec = SmallJob();
  spec.set_description("first try");
  const std::string job = *cluster_.Submit(spec);
  cluster_.MeetAll(job);
  const auto describe = [&](const std::string& id, const std::string& text) {
    v1::DescribeJobRequest request;
    request.set_job_id(id);
    request.set_description(text);
    return cluster_.coordinator().jobs().Describe(request);
  };
  const auto identity = [&] {
    return SimulatedCluster::Identity(*cluster_.Order(job, 0)).ShortDebugString();
  };
  const std::string before = identity();
  EXPECT_EQ(describe(job, "why:\n\tbecause").value().spec().description(), "why:\n\tbecause");
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_EQ(identity(), before) << "its tasks go on";
  cluster_.Finish(job);
  ASSERT_EQ(cluster_.State(job), v1::SUCCEEDED);
  EXPECT_TRUE(describe(job, "diverged at step 4").ok());
  cluster_.RestartCoordinator();
  EXPECT_EQ(cluster_.Status(job).spec().description(), "diverged at step 4") << "it is stored";
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED);

  EXPECT_THAT(std::string(describe(job, std::string(4097, 'a')).status().message()),
              HasSubstr("description has 4097 bytes"));
  const absl::Status steers = describe(job, "a\x1b[2J").status();
  EXPECT_EQ(steers.code(), absl::StatusCode::kInvalidArgument) << steers;
  EXPECT_EQ(cluster_.Status(job).spec().description(), "diverged at step 4");
  EXPECT_EQ(describe("j9-none", "").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(describe(job, "").value().spec().description(), "") << "an empty one removes it";
}

TEST_F(CoordinatorTest, CancelWorksAtEveryStageAndTwice) {
  const auto cancel = [&](const std::string& job) {
    v1::CancelJobRequest request;
    request.set_job_id(job);
    request.set_reason("ann: wrong data");
    const auto status = cluster_.coordinator().jobs().Cancel(request);
    cluster_.Run();
    cluster_.BeatAll();
    return status;
  };
  const std::string pending = *cluster_.Submit(SmallJob());
  ASSERT_EQ(cluster_.State(pending), v1::PENDING);
  EXPECT_EQ(cancel(pending)->state(), v1::CANCELLED);

  StartDaemons();
  const std::string placing = *cluster_.Submit(SmallJob());
  const v1::TaskOrder order = *cluster_.Order(placing, 0);
  auto parked = cluster_.Rendezvous(order);
  EXPECT_EQ(cancel(placing)->state(), v1::CANCELLED);
  EXPECT_EQ(parked.status().code(), absl::StatusCode::kNotFound) << "parked calls are answered";
  EXPECT_THAT(cluster_.Orders(placing), IsEmpty());
  EXPECT_EQ(cluster_.Progress(order, 1).code(), absl::StatusCode::kNotFound);

  const std::string running = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(running);
  EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(running, 0), 3).status().ok());
  const v1::JobStatus status = *cancel(running);
  EXPECT_EQ(status.state(), v1::CANCELLED);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("ann: wrong data"), HasSubstr("clock 3, is kept")));
  EXPECT_EQ(cluster_.archive.folders.size(), 1);
  EXPECT_EQ(cancel(running)->state(), v1::CANCELLED);

  const std::string done = *cluster_.Submit(SmallJob());
  cluster_.Finish(done);
  const absl::Status late = cancel(done).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(late.message()),
              AllOf(HasSubstr(done), HasSubstr("has already ended as SUCCEEDED at step 10")));
  EXPECT_EQ(cluster_.State(done), v1::SUCCEEDED) << "what ended stays";
  EXPECT_EQ(cancel("j0-none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorTest, WhatCannotBeStoredIsNotActedOn) {
  StartDaemons();
  cluster_.store.failing = true;
  EXPECT_EQ(cluster_.Submit(SmallJob(), "r").status().code(), absl::StatusCode::kUnavailable);
  cluster_.store.failing = false;
  const std::string job = *cluster_.Submit(SmallJob(), "r");
  const v1::TaskOrder order = *cluster_.Order(job, 0);

  cluster_.store.failing = true;
  auto first = cluster_.Rendezvous(order);
  auto second = cluster_.Rendezvous(*cluster_.Order(job, 1));
  EXPECT_EQ(first.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(cluster_.State(job), v1::PLACING);
  cluster_.store.failing = false;
  cluster_.MeetAll(job);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);

  cluster_.store.failing = true;
  EXPECT_EQ(cluster_.Checkpoint(order, 10).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(cluster_.Status(job).checkpoint_uri(), "");
  cluster_.store.failing = false;
  EXPECT_TRUE(cluster_.Checkpoint(order, 10).status().ok());
  cluster_.store.failing = true;
  cluster_.EndAll(job);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  cluster_.store.failing = false;
  cluster_.BeatAll();
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << "the daemons report again";
}

}  // namespace
}  // namespace muster
