// The life of jobs on a cluster where nothing is lost.
#include "server/coordinator/coordinator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/simulated_cluster.h"
#include "server/coordinator/test_jobs.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class CoordinatorTest : public ::testing::Test {
 protected:
  void StartDaemons() {
    cluster_.AddServer("s0");
    cluster_.AddServer("s1");
    cluster_.AddWorker("w0");
    cluster_.AddWorker("w1");
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

TEST_F(CoordinatorTest, SubmitIsIdempotentByRequestId) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob(), "r");
  EXPECT_EQ(*cluster_.Submit(SmallJob(), "r"), job);
  EXPECT_NE(*cluster_.Submit(SmallJob(), "other"), job);
  v1::JobSpec changed = SmallJob();
  changed.set_seed(9);
  const absl::Status refused = cluster_.Submit(changed, "r").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(job));
  cluster_.RestartCoordinator();
  EXPECT_EQ(*cluster_.Submit(SmallJob(), "r"), job);
}

TEST_F(CoordinatorTest, SubmitRefusesBadJobsAndServesOthers) {
  StartDaemons();
  v1::JobSpec bad = SmallJob();
  bad.set_workers(0);
  EXPECT_EQ(cluster_.Submit(bad).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(cluster_.Submit(SmallJob()).ok());
  v1::SubmitJobRequest request;
  *request.mutable_spec() = SmallJob();
  EXPECT_THAT(std::string(cluster_.coordinator().jobs().Submit(request).status().message()),
              HasSubstr("request_id is empty"));
}

TEST_F(CoordinatorTest, WaitsForTheClusterAndSaysForWhat) {
  const std::string job = *cluster_.Submit(SmallJob());
  EXPECT_EQ(cluster_.State(job), v1::PENDING);
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("0 of 2 worker slots free"));
  cluster_.AddWorker("w0");
  EXPECT_THAT(cluster_.Status(job).waiting_for(),
              HasSubstr("1 of 2 worker slots free; waits for 1 more"));
  cluster_.AddWorker("w1");
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("servers live"));
  EXPECT_EQ(cluster_.State(job), v1::PENDING);
  cluster_.AddServer("s0");
  EXPECT_EQ(cluster_.State(job), v1::PLACING);
}

TEST_F(CoordinatorTest, RefusesWhatCanNeverFit) {
  StartDaemons();
  v1::JobSpec spec = SmallJob();
  spec.set_workers(3);
  const absl::Status status = cluster_.Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("even when nothing else runs"), HasSubstr("2 of 3 worker slots")));
}

TEST_F(CoordinatorTest, JobsShareTheClusterInOrderOfSubmission) {
  cluster_.AddServer("s0");
  cluster_.AddWorker("w0", 2);
  cluster_.AddWorker("w1", 1);
  v1::JobSpec one = SmallJob();
  one.set_workers(1);
  const std::string a = *cluster_.Submit(one);
  const std::string large = *cluster_.Submit([&] {
    v1::JobSpec spec = SmallJob();
    spec.set_workers(3);
    return spec;
  }());
  const std::string b = *cluster_.Submit(one);
  EXPECT_EQ(cluster_.State(a), v1::PLACING);
  EXPECT_EQ(cluster_.State(large), v1::PENDING);
  EXPECT_THAT(cluster_.Status(large).waiting_for(), HasSubstr("2 of 3 worker slots free"));
  EXPECT_EQ(cluster_.State(b), v1::PENDING) << "must not starve the large one";
  EXPECT_THAT(cluster_.Status(b).waiting_for(), HasSubstr("waits behind job " + large));
  cluster_.Finish(a);
  EXPECT_EQ(cluster_.State(a), v1::SUCCEEDED);
  EXPECT_EQ(cluster_.State(large), v1::PLACING);
  cluster_.Finish(large);
  EXPECT_EQ(cluster_.State(b), v1::PLACING);
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
    EXPECT_GT(daemon.memory_reserved_bytes(), 0);
  }
  cluster_.Finish(a);
  EXPECT_EQ(cluster_.State(b), v1::RUNNING);
}

TEST_F(CoordinatorTest, AccountsForMemory) {
  cluster_.AddServer("s0", 8000);
  cluster_.AddWorker("w0", 8);
  const std::string a = *cluster_.Submit(SmallJob());
  const std::string b = *cluster_.Submit(SmallJob());
  const std::string c = *cluster_.Submit(SmallJob());
  EXPECT_EQ(cluster_.State(b), v1::PLACING);
  EXPECT_EQ(cluster_.State(c), v1::PENDING);
  EXPECT_THAT(cluster_.Status(c).waiting_for(), HasSubstr("server s0 has"));
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

TEST_F(CoordinatorTest, KeepsTheLastCheckpoints) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const v1::TaskOrder order = *cluster_.Order(job, 0);
  for (uint64_t clock : {2, 4, 6}) EXPECT_TRUE(cluster_.Checkpoint(order, clock).status().ok());
  EXPECT_TRUE(cluster_.Checkpoint(order, 6).status().ok()) << "a repeat";
  EXPECT_THAT(cluster_.keeper.folders,
              UnorderedElementsAre("/checkpoints/" + job + "/4", "/checkpoints/" + job + "/6"));
  EXPECT_EQ(cluster_.Status(job).checkpoint_uri(), "/checkpoints/" + job + "/6");
  EXPECT_EQ(cluster_.Checkpoint(*cluster_.Order(job, 1), 8).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "slot 0 commits";
  cluster_.keeper.next_error = absl::DataLossError("a file is not whole");
  EXPECT_EQ(cluster_.Checkpoint(order, 8).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(cluster_.Status(job).checkpoint_clock(), 6);
}

TEST_F(CoordinatorTest, KeepsWhatKeptDeltasGoOnFrom) {
  StartDaemons();
  cluster_.keeper.bases = {{4, 2}, {6, 4}};
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const v1::TaskOrder order = *cluster_.Order(job, 0);
  const auto folder = [&](uint64_t clock) {
    return "/checkpoints/" + job + "/" + std::to_string(clock);
  };
  for (uint64_t clock : {2, 4, 6}) EXPECT_TRUE(cluster_.Checkpoint(order, clock).status().ok());
  EXPECT_THAT(cluster_.keeper.folders, UnorderedElementsAre(folder(2), folder(4), folder(6)));
  // Of two, 6 is kept, and its chain with it.
  EXPECT_TRUE(cluster_.Checkpoint(order, 8).status().ok());
  EXPECT_THAT(cluster_.keeper.folders,
              UnorderedElementsAre(folder(2), folder(4), folder(6), folder(8)));
  EXPECT_TRUE(cluster_.Checkpoint(order, 10).status().ok());
  EXPECT_THAT(cluster_.keeper.folders, UnorderedElementsAre(folder(8), folder(10)));
}

TEST_F(CoordinatorTest, StartsFromTheWeightsInAFolder) {
  StartDaemons();
  for (const std::string folder : {"/imported/gpt2", "file:///imported/gpt2"}) {
    v1::JobSpec spec = SmallJob();
    spec.set_initial_weights(folder);
    const auto job = cluster_.Submit(spec);
    ASSERT_TRUE(job.ok()) << job.status();
    const v1::TaskOrder order = *cluster_.Order(*job, 0);
    EXPECT_EQ(order.restore_uri(), folder);
    EXPECT_TRUE(order.restore_weights_only());
    cluster_.Finish(*job);
  }
}

TEST_F(CoordinatorTest, StartsFromAnotherJobsWeights) {
  StartDaemons();
  const std::string source = *cluster_.Submit(SmallJob());
  v1::JobSpec spec = SmallJob();
  spec.set_initial_weights(source);
  EXPECT_EQ(cluster_.Submit(spec).status().code(), absl::StatusCode::kFailedPrecondition);
  cluster_.Finish(source);
  const std::string job = *cluster_.Submit(spec);
  const v1::TaskOrder order = *cluster_.Order(job, 0);
  EXPECT_EQ(order.restore_uri(), "/checkpoints/" + source + "/10");
  EXPECT_TRUE(order.restore_weights_only());
  EXPECT_EQ(order.start_clock(), 0);

  Answer<v1::DeleteJobReply> refused;
  cluster_.coordinator().jobs().Delete(source, refused.call());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  spec.set_initial_weights("j9-none");
  EXPECT_EQ(cluster_.Submit(spec).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorTest, GoesOnFromAnotherJobsCheckpoint) {
  StartDaemons();
  v1::JobSpec spec = SmallJob();
  spec.mutable_checkpoint()->set_keep(3);
  const std::string source = *cluster_.Submit(spec);
  spec.set_resume_from(source);
  EXPECT_EQ(cluster_.Submit(spec).status().code(), absl::StatusCode::kFailedPrecondition);
  cluster_.MeetAll(source);
  for (uint64_t clock : {4, 6}) {
    EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(source, 0), clock).status().ok());
  }
  cluster_.Finish(source);

  const absl::Status done = cluster_.Submit(spec).status();
  EXPECT_EQ(done.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(done.message()), HasSubstr("at step 10, but stop.steps is 10"));
  spec.set_resume_from(source + "@5");
  const absl::Status none = cluster_.Submit(spec).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("4, 6, 10"));
  spec.set_resume_from("j9-none@4");
  EXPECT_EQ(cluster_.Submit(spec).status().code(), absl::StatusCode::kNotFound);
  spec.set_resume_from(source + "@4");
  spec.mutable_optimizer()->set_name("adam");
  const absl::Status optimizer = cluster_.Submit(spec).status();
  EXPECT_EQ(optimizer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(optimizer.message()), HasSubstr("trained by sgd"));
  spec.mutable_optimizer()->set_name("sgd");

  const std::string job = *cluster_.Submit(spec);
  EXPECT_EQ(cluster_.Status(job).progress().step(), 4);
  EXPECT_EQ(cluster_.Status(job).recovery(), "rolls back to clock 4");
  const auto check_order = [&](uint64_t generation) {
    const v1::TaskOrder order = *cluster_.Order(job, 1);
    EXPECT_EQ(order.generation(), generation);
    EXPECT_EQ(order.restore_uri(), "/checkpoints/" + source + "/4");
    EXPECT_FALSE(order.restore_weights_only());
    EXPECT_EQ(order.start_clock(), 4);
  };
  check_order(1);
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  check_order(1);
  Answer<v1::DeleteJobReply> refused;
  cluster_.coordinator().jobs().Delete(source, refused.call());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(job));
  // It goes back to where it began as long as it has no checkpoint of its own.
  cluster_.MeetAll(job);
  cluster_.ProgressAll(job, 6);
  cluster_.RestartDaemon("s0");
  check_order(2);
  EXPECT_EQ(cluster_.Status(job).progress().step(), 4);
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
  EXPECT_EQ(cluster_.Status(job).checkpoint_uri(), "/checkpoints/" + job + "/10");
}

TEST_F(CoordinatorTest, AJobThatGoesOnFromBeyondItsEndFails) {
  StartDaemons();
  const std::string source = *cluster_.Submit(SmallJob());
  cluster_.Finish(source);
  v1::JobSpec spec = SmallJob();
  spec.set_resume_from(source);
  spec.mutable_stop()->clear_steps();
  spec.mutable_stop()->set_epochs(1);
  const std::string job = *cluster_.Submit(spec);
  cluster_.MeetAll(job);
  cluster_.EndAll(job);
  EXPECT_EQ(cluster_.State(job), v1::FAILED);
  EXPECT_THAT(cluster_.Status(job).message(), HasSubstr("nothing was left to train"));
}

TEST_F(CoordinatorTest, DeletesEndedJobsWithAllTheyLeft) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  Answer<v1::DeleteJobReply> running;
  cluster_.coordinator().jobs().Delete(job, running.call());
  EXPECT_EQ(running.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(running.status().message()), HasSubstr("cancel it first"));
  cluster_.Finish(job);

  cluster_.keeper.next_error = absl::UnavailableError("disk");
  Answer<v1::DeleteJobReply> failed, deleted, again;
  cluster_.coordinator().jobs().Delete(job, failed.call());
  cluster_.Run();
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << "may be deleted again";
  cluster_.coordinator().jobs().Delete(job, deleted.call());
  cluster_.Run();
  EXPECT_TRUE(deleted.status().ok());
  EXPECT_THAT(cluster_.keeper.folders, IsEmpty());
  EXPECT_EQ(cluster_.coordinator().jobs().Get(job).status().code(), absl::StatusCode::kNotFound);
  cluster_.coordinator().jobs().Delete(job, again.call());
  EXPECT_TRUE(again.status().ok());
  cluster_.RestartCoordinator();
  EXPECT_EQ(cluster_.coordinator().jobs().Get(job).status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(*cluster_.Submit(SmallJob()), job) << "ids never return";
}

TEST(CoordinatorRetentionTest, DeletesTheOldestFinishedJobs) {
  CoordinatorOptions options;
  options.finished_jobs_kept = 2;
  SimulatedCluster cluster(options);
  cluster.AddServer("s0");
  cluster.AddWorker("w0", 2);
  std::vector<std::string> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(*cluster.Submit(SmallJob()));
    cluster.Finish(jobs.back());
  }
  cluster.Pass(absl::Seconds(1));
  const v1::ListJobsReply left = cluster.coordinator().jobs().List();
  ASSERT_EQ(left.jobs_size(), 2);
  EXPECT_EQ(left.jobs(0).job_id(), jobs[2]);
  EXPECT_EQ(left.jobs(1).job_id(), jobs[3]);
  EXPECT_EQ(cluster.keeper.folders.size(), 2);
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
  EXPECT_EQ(cluster_.keeper.folders.size(), 1);
  EXPECT_EQ(cancel(running)->state(), v1::CANCELLED);

  const std::string done = *cluster_.Submit(SmallJob());
  cluster_.Finish(done);
  EXPECT_EQ(cancel(done)->state(), v1::SUCCEEDED) << "what ended stays";
  EXPECT_EQ(cancel("j0-none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorTest, WatchersSeeChangesAtMostFourTimesASecond) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  using Update = JobRequests::StatusUpdate;
  Answer<Update> first, second, last;
  cluster_.coordinator().jobs().NextStatus(job, 0, first.call());
  ASSERT_TRUE(first.status().ok());
  cluster_.coordinator().jobs().NextStatus(job, first.get()->version, second.call());
  cluster_.MeetAll(job);
  EXPECT_FALSE(second.came()) << "too soon";
  cluster_.Pass(absl::Milliseconds(500));
  ASSERT_TRUE(second.status().ok());
  EXPECT_EQ(second.get()->status.state(), v1::RUNNING);
  EXPECT_FALSE(second.get()->last);
  cluster_.coordinator().jobs().NextStatus(job, second.get()->version, last.call());
  cluster_.Finish(job);
  cluster_.Run();
  Answer<Update> ended;
  cluster_.coordinator().jobs().NextStatus(job, 1, ended.call());
  ASSERT_TRUE(ended.status().ok());
  EXPECT_TRUE(ended.get()->last);
}

TEST_F(CoordinatorTest, LogsAreStreamedAndOutliveTheCoordinator) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  const auto append = [&](const std::string& text) {
    v1::AppendLogsRequest request;
    request.set_job_id(job);
    request.set_text(text);
    const absl::Status status = cluster_.coordinator().daemons().AppendLogs(request).status();
    cluster_.Run();
    return status;
  };
  using Update = JobRequests::LogUpdate;
  EXPECT_TRUE(append("hello\n").ok());
  v1::ReadLogsRequest request;
  request.set_job_id(job);
  request.set_follow(true);
  Answer<Update> first, second, last;
  cluster_.coordinator().jobs().NextLog(request, first.call());
  ASSERT_TRUE(first.status().ok());
  EXPECT_EQ(first.get()->chunk.text(), "hello\n");
  request.set_offset(6);
  cluster_.coordinator().jobs().NextLog(request, second.call());
  EXPECT_FALSE(second.came());
  EXPECT_TRUE(append("world\n").ok());
  ASSERT_TRUE(second.status().ok());
  EXPECT_EQ(second.get()->chunk.text(), "world\n");
  EXPECT_FALSE(second.get()->last);
  request.set_offset(12);
  cluster_.coordinator().jobs().NextLog(request, last.call());
  cluster_.Finish(job);
  ASSERT_TRUE(last.status().ok());
  EXPECT_TRUE(last.get()->last);

  cluster_.RestartCoordinator();
  Answer<Update> whole;
  request.set_offset(0);
  cluster_.coordinator().jobs().NextLog(request, whole.call());
  ASSERT_TRUE(whole.status().ok());
  EXPECT_EQ(whole.get()->chunk.text(), "hello\nworld\n");
  v1::AppendLogsRequest gone;
  gone.set_job_id("j0-none");
  EXPECT_EQ(cluster_.coordinator().daemons().AppendLogs(gone).status().code(),
            absl::StatusCode::kNotFound);
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

TEST_F(CoordinatorTest, MetricsCountJobsAndDaemons) {
  StartDaemons();
  v1::HeartbeatRequest request;
  request.set_id("s0");
  request.set_incarnation(cluster_.daemon("s0").incarnation);
  v1::MetricSample& sample = *request.add_metrics();
  sample.set_name("muster_pushed_bytes_total");
  sample.set_labels("job=\"x\"");
  sample.set_value(42);
  Answer<v1::HeartbeatReply> answer;
  cluster_.coordinator().daemons().Heartbeat(request, answer.call());
  cluster_.Run();
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const std::string text = cluster_.coordinator().jobs().Metrics().text();
  EXPECT_THAT(text, HasSubstr("muster_jobs{state=\"RUNNING\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("muster_jobs_submitted_total 1\n"));
  EXPECT_THAT(text, HasSubstr("muster_slots_used{daemon=\"w0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("muster_pushed_bytes_total{daemon=\"s0\",job=\"x\"} 42\n"));
}

TEST_F(CoordinatorTest, StatusShowsWhatServersReplayed) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  v1::HeartbeatRequest request;
  request.set_id(cluster_.Status(job).partitions(0).replicas(0).server_id());
  request.set_incarnation(cluster_.daemon(request.id()).incarnation);
  v1::ReplayStatus& replay = *request.add_replays();
  replay.set_job_id(job);
  replay.set_generation(cluster_.Status(job).generation());
  replay.set_partitions(2);
  replay.set_records(70);
  replay.set_bytes(4000);
  replay.set_seconds(0.5);
  // Of a generation that is over.
  *request.add_replays() = replay;
  request.mutable_replays(1)->set_generation(replay.generation() + 1);
  request.mutable_replays(1)->set_records(9);
  EXPECT_EQ(cluster_.Status(job).replays_size(), 0);
  Answer<v1::HeartbeatReply> first, again;
  cluster_.coordinator().daemons().Heartbeat(request, first.call());
  ASSERT_EQ(cluster_.Status(job).replays_size(), 1);
  const v1::ReplayStatus shown = cluster_.Status(job).replays(0);
  EXPECT_EQ(shown.server_id(), request.id());
  EXPECT_EQ(shown.partitions(), 2u);
  EXPECT_EQ(shown.records(), 70u);
  EXPECT_EQ(shown.bytes(), 4000u);
  EXPECT_EQ(shown.seconds(), 0.5);
  // As far as it has come since.
  request.mutable_replays(0)->set_records(80);
  cluster_.coordinator().daemons().Heartbeat(request, again.call());
  EXPECT_EQ(cluster_.Status(job).replays(0).records(), 80u);
}

TEST_F(CoordinatorTest, HeartbeatsWaitForOrders) {
  StartDaemons();
  v1::HeartbeatRequest request;
  request.set_id("w0");
  request.set_incarnation(cluster_.daemon("w0").incarnation);
  request.set_seen_orders_version(cluster_.daemon("w0").seen_version);
  request.set_poll_ms(1000);
  Answer<v1::HeartbeatReply> changed, quiet;
  cluster_.coordinator().daemons().Heartbeat(request, changed.call());
  cluster_.Run();
  EXPECT_FALSE(changed.came());
  v1::SubmitJobRequest submit;
  *submit.mutable_spec() = SmallJob();
  submit.set_request_id("r");
  ASSERT_TRUE(cluster_.coordinator().jobs().Submit(submit).ok());
  cluster_.Run();
  ASSERT_TRUE(changed.status().ok());
  EXPECT_EQ(changed.get()->tasks_size(), 1);

  request.set_seen_orders_version(changed.get()->orders_version());
  v1::TaskReport& report = *request.add_tasks();
  report.set_state(v1::TaskReport::RUNNING);
  cluster_.coordinator().daemons().Heartbeat(request, quiet.call());
  cluster_.Run();
  EXPECT_FALSE(quiet.came());
  cluster_.clock.Advance(absl::Seconds(1));
  cluster_.Run();
  ASSERT_TRUE(quiet.status().ok());
  EXPECT_EQ(quiet.get()->orders_version(), request.seen_orders_version());
}

TEST_F(CoordinatorTest, ShutdownAnswersAllParkedCalls) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob());
  auto rendezvous = cluster_.Rendezvous(*cluster_.Order(job, 0));
  auto map = cluster_.GetShardMap(*cluster_.Order(job, 0), 99, absl::Seconds(30));
  Answer<JobRequests::StatusUpdate> watch;
  cluster_.coordinator().jobs().NextStatus(job, 1000, watch.call());
  v1::ReadLogsRequest follow;
  follow.set_job_id(job);
  follow.set_follow(true);
  Answer<JobRequests::LogUpdate> logs;
  cluster_.coordinator().jobs().NextLog(follow, logs.call());
  cluster_.coordinator().Shutdown();
  for (const absl::Status& status : {rendezvous.status(), map.status(), logs.status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(watch.came());
}

}  // namespace
}  // namespace muster
