// Which checkpoints of a job there are, and where jobs start from them.
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

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

class CheckpointLifecycleTest : public ::testing::Test {
 protected:
  CheckpointLifecycleTest() {
    for (const char* server : {"s0", "s1"}) cluster_.AddServer(server);
    for (const char* worker : {"w0", "w1"}) cluster_.AddWorker(worker);
  }

  // Of slot 0's present task.
  v1::CommitCheckpointRequest Request(const std::string& job, uint64_t clock,
                                      const std::vector<std::string>& files) {
    v1::CommitCheckpointRequest request;
    *request.mutable_task() = cluster_.Identity(*cluster_.Order(job, 0));
    request.set_clock(clock);
    for (const std::string& file : files) request.add_files()->set_path(file);
    return request;
  }
  Answer<v1::CommitCheckpointReply> Send(const v1::CommitCheckpointRequest& request) {
    Answer<v1::CommitCheckpointReply> answer;
    cluster_.coordinator().tasks().CommitCheckpoint(request, answer.call());
    return answer;
  }
  std::vector<std::string> CompletedFiles() const {
    std::vector<std::string> files;
    for (const auto& request : cluster_.archive.completed_requests) {
      files.push_back(request.files(0).path());
    }
    return files;
  }

  SimulatedCluster cluster_;
};

TEST_F(CheckpointLifecycleTest, KeepsTheLastCheckpoints) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const v1::TaskOrder order = *cluster_.Order(job, 0);
  for (uint64_t clock : {2, 4, 6}) EXPECT_TRUE(cluster_.Checkpoint(order, clock).status().ok());
  EXPECT_TRUE(cluster_.Checkpoint(order, 6).status().ok()) << "a repeat";
  EXPECT_THAT(cluster_.archive.folders,
              UnorderedElementsAre("/checkpoints/" + job + "/4", "/checkpoints/" + job + "/6"));
  EXPECT_EQ(cluster_.Status(job).checkpoint_uri(), "/checkpoints/" + job + "/6");
  EXPECT_EQ(cluster_.Checkpoint(*cluster_.Order(job, 1), 8).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "slot 0 commits";
  cluster_.archive.next_error = absl::DataLossError("a file is not whole");
  EXPECT_EQ(cluster_.Checkpoint(order, 8).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(cluster_.Status(job).checkpoint_clock(), 6);
}

// A repeat whose first call nobody waits for any more.
TEST_F(CheckpointLifecycleTest, ARepeatTakesThePlaceOfTheParkedCall) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  v1::CommitCheckpointRequest request;
  *request.mutable_task() = cluster_.Identity(*cluster_.Order(job, 0));
  request.set_clock(4);
  Answer<v1::CommitCheckpointReply> first, second;
  cluster_.coordinator().tasks().CommitCheckpoint(request, first.call());
  cluster_.coordinator().tasks().CommitCheckpoint(request, second.call());
  EXPECT_EQ(first.status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(second.came());
  cluster_.Run();
  EXPECT_EQ(second.status(), absl::OkStatus());
  EXPECT_EQ(cluster_.Status(job).checkpoint_clock(), 4);
}

// The task that sent the first is gone; its successor has cut the same clock once more.
TEST_F(CheckpointLifecycleTest, AClockThatIsCommittedKeepsItsFiles) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  Send(Request(job, 4, {"first"}));
  const auto second = Send(Request(job, 4, {"second"}));
  EXPECT_FALSE(second.came()) << "the first is under way";
  cluster_.Run();
  EXPECT_EQ(second.status(), absl::OkStatus());
  EXPECT_THAT(CompletedFiles(), ElementsAre("first"));
  const auto third = Send(Request(job, 4, {"third"}));
  cluster_.Run();
  EXPECT_EQ(third.status(), absl::OkStatus());
  EXPECT_THAT(CompletedFiles(), ElementsAre("first"));
}

TEST_F(CheckpointLifecycleTest, AnotherCutIsCompletedWhereTheFirstCannotBe) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  cluster_.archive.next_error = absl::DataLossError("a file is not whole");
  Send(Request(job, 4, {"first"}));
  const auto second = Send(Request(job, 4, {"second"}));
  cluster_.Run();
  EXPECT_EQ(second.status(), absl::OkStatus());
  EXPECT_THAT(CompletedFiles(), ElementsAre("second"));
  EXPECT_EQ(cluster_.Status(job).checkpoint_clock(), 4);
}

TEST_F(CheckpointLifecycleTest, WhatCutsLeftBehindGoesAfterTheNextCommitAndAfterTheEnd) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const v1::TaskOrder order = *cluster_.Order(job, 0);
  auto& leftovers = cluster_.archive.leftovers[job];
  ASSERT_TRUE(cluster_.Checkpoint(order, 2).status().ok());
  ASSERT_TRUE(cluster_.Checkpoint(order, 4).status().ok());
  ASSERT_EQ(leftovers.size(), 2);
  EXPECT_THAT(leftovers.back().kept, ElementsAre(2, 4));
  EXPECT_EQ(leftovers.back().reached, 4);
  EXPECT_EQ(leftovers.back().generation, 1);
  // One that failed says nothing about what else is under way.
  cluster_.archive.next_error = absl::DataLossError("a file is not whole");
  EXPECT_FALSE(cluster_.Checkpoint(order, 6).status().ok());
  EXPECT_EQ(leftovers.size(), 2);
  cluster_.Finish(job);
  const size_t before = leftovers.size();
  EXPECT_LT(leftovers.back().reached, 11);
  // Servers may be writing for a lease.
  cluster_.Pass(absl::Seconds(30));
  ASSERT_EQ(leftovers.size(), before + 1);
  EXPECT_GT(leftovers.back().reached, uint64_t{1} << 60);
  EXPECT_THAT(leftovers.back().kept, testing::Contains(10));
}

TEST_F(CheckpointLifecycleTest, TasksThatMeetLearnWhichClockIsCommitted) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const v1::TaskOrder order = *cluster_.Order(job, 0);
  EXPECT_FALSE(cluster_.Rendezvous(order).get()->has_checkpoint_clock());
  ASSERT_TRUE(cluster_.Checkpoint(order, 4).status().ok());
  EXPECT_EQ(cluster_.Rendezvous(order).get()->checkpoint_clock(), 4);
}

TEST_F(CheckpointLifecycleTest, ACutThatIsGivenUpLeavesNoFiles) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  v1::CommitCheckpointRequest failed = Request(job, 4, {"f0", "", "f2"});
  failed.set_failure("partition 1 has no file: no space left");
  const auto answer = Send(failed);
  EXPECT_FALSE(answer.came()) << "before the files are removed";
  cluster_.Run();
  EXPECT_EQ(answer.status(), absl::OkStatus());
  const std::string folder = "/checkpoints/" + job + "/4/";
  EXPECT_THAT(cluster_.archive.removed_files, ElementsAre(folder + "f0", folder + "f2"));
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "");
  EXPECT_TRUE(cluster_.HasEvent(
      job, "checkpoint at clock 4 is given up: partition 1 has no file: no space left"));
  // Whoever took the slot over finds some of them known to their servers.
  const absl::Status again = Send(Request(job, 4, {"f0", "f1", "f2"})).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()), HasSubstr("f0, which was given up before"));
  // Those of a checkpoint stay, whatever is said of them.
  ASSERT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 6).status().ok());
  failed.set_clock(6);
  const auto committed = Send(failed);
  cluster_.Run();
  EXPECT_EQ(committed.status(), absl::OkStatus());
  EXPECT_EQ(cluster_.archive.removed_files.size(), 2);
}

TEST_F(CheckpointLifecycleTest, AnEventTellsOfAFullDiskOnceUntilACheckpointIsCommitted) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const auto fail = [&](uint64_t clock) {
    v1::CommitCheckpointRequest failed = Request(job, clock, {});
    failed.set_failure("no space left");
    Send(failed);
    cluster_.Run();
  };
  const auto is_told = [&](uint64_t clock) {
    return cluster_.HasEvent(job, absl::StrCat("checkpoint at clock ", clock, " is given up"));
  };
  cluster_.store.failing = true;
  fail(1);
  EXPECT_FALSE(is_told(1)) << "it is the coordinator's disk, too";
  cluster_.store.failing = false;
  fail(2);
  fail(3);
  EXPECT_TRUE(is_told(2));
  EXPECT_FALSE(is_told(3));
  ASSERT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 4).status().ok());
  EXPECT_TRUE(cluster_.HasEvent(job, "checkpoint at clock 4"));
  fail(6);
  EXPECT_TRUE(is_told(6));
}

TEST_F(CheckpointLifecycleTest, StatusSaysWhatTheLastCheckpointWaitsFor) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  v1::CommitCheckpointRequest failed = Request(job, 10, {"f0"});
  failed.set_failure("cannot write /c/j1/10/f1: No space left on device");
  failed.set_tried_again(true);
  EXPECT_EQ(Send(failed).status(), absl::OkStatus());
  cluster_.Run();
  EXPECT_THAT(cluster_.archive.removed_files, IsEmpty()) << "they may be part of it";
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("its last checkpoint, at step 10"));
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("No space left on device"));
  EXPECT_TRUE(cluster_.HasEvent(
      job, "the last checkpoint, at clock 10, cannot be written and is tried again: cannot write"));
  ASSERT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 10).status().ok());
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "");
}

TEST_F(CheckpointLifecycleTest, WhatCouldNotBeRecordedCostsNoEarlierCheckpoint) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_checkpoint()->set_keep(2);
  const std::string job = *cluster_.Submit(spec);
  cluster_.MeetAll(job);
  const v1::TaskOrder order = *cluster_.Order(job, 0);
  const auto folder = [&](uint64_t clock) {
    return absl::StrCat("/checkpoints/", job, "/", clock);
  };
  for (const uint64_t clock : {2, 4}) ASSERT_TRUE(cluster_.Checkpoint(order, clock).status().ok());
  cluster_.store.failing = true;
  EXPECT_EQ(cluster_.Checkpoint(order, 6).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(cluster_.archive.folders, IsSupersetOf({folder(2), folder(4)}));
  EXPECT_EQ(cluster_.Status(job).checkpoint_clock(), 4);
  // After a restart too, the record names what is on disk.
  cluster_.store.failing = false;
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  EXPECT_EQ(cluster_.Status(job).checkpoint_uri(), folder(4));
  EXPECT_EQ(cluster_.Checkpoint(order, 6).status(), absl::OkStatus());
  EXPECT_THAT(cluster_.archive.folders, UnorderedElementsAre(folder(4), folder(6)));
}

TEST_F(CheckpointLifecycleTest, ACheckpointBeyondTheLastStepIsRefused) {
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const v1::TaskOrder order = *cluster_.Order(job, 0);
  const absl::Status beyond = cluster_.Checkpoint(order, 11).status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(beyond.message()), HasSubstr("at clock 11 is beyond its last step, 10"));
  EXPECT_THAT(cluster_.archive.folders, IsEmpty());
  EXPECT_EQ(cluster_.Checkpoint(order, 10).status(), absl::OkStatus());
}

TEST_F(CheckpointLifecycleTest, KeepsWhatKeptDeltasGoOnFrom) {
  cluster_.archive.bases = {{4, 2}, {6, 4}};
  const std::string job = *cluster_.Submit(SmallJob());
  cluster_.MeetAll(job);
  const v1::TaskOrder order = *cluster_.Order(job, 0);
  const auto folder = [&](uint64_t clock) {
    return "/checkpoints/" + job + "/" + std::to_string(clock);
  };
  for (uint64_t clock : {2, 4, 6}) EXPECT_TRUE(cluster_.Checkpoint(order, clock).status().ok());
  EXPECT_THAT(cluster_.archive.folders, UnorderedElementsAre(folder(2), folder(4), folder(6)));
  // Of two, 6 is kept, and its chain with it.
  EXPECT_TRUE(cluster_.Checkpoint(order, 8).status().ok());
  EXPECT_THAT(cluster_.archive.folders,
              UnorderedElementsAre(folder(2), folder(4), folder(6), folder(8)));
  EXPECT_TRUE(cluster_.Checkpoint(order, 10).status().ok());
  EXPECT_THAT(cluster_.archive.folders, UnorderedElementsAre(folder(8), folder(10)));
}

TEST_F(CheckpointLifecycleTest, StartsFromTheWeightsInAFolder) {
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

TEST_F(CheckpointLifecycleTest, StartsFromAnotherJobsWeights) {
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

  spec.set_averaged_weights(true);
  const absl::Status none = cluster_.Submit(spec).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.message()), HasSubstr("kept no averages"));
  spec.clear_averaged_weights();

  Answer<v1::DeleteJobReply> refused;
  cluster_.coordinator().jobs().Delete(source, refused.call());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  spec.set_initial_weights("j9-none");
  EXPECT_EQ(cluster_.Submit(spec).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointLifecycleTest, AJobToStartFromMayBeNamedByItsName) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_checkpoint()->set_keep(3);
  spec.set_name("source");
  const std::string first = *cluster_.Submit(spec);
  cluster_.MeetAll(first);
  EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(first, 0), 4).status().ok());
  cluster_.Finish(first);
  const std::string second = *cluster_.Submit(spec);
  cluster_.Finish(second);

  spec.set_name("next");
  spec.set_initial_weights("source");
  const std::string newest = *cluster_.Submit(spec);
  EXPECT_EQ(cluster_.Order(newest, 0)->restore_uri(), "/checkpoints/" + second + "/10");
  // What later jobs are called makes no difference to where it started.
  EXPECT_EQ(cluster_.Status(newest).spec().initial_weights(), second);
  cluster_.Finish(newest);

  // One that has not ended goes before those that have.
  spec.set_name("first");
  spec.set_initial_weights(first + "@4");
  const std::string third = *cluster_.Submit(spec);
  cluster_.MeetAll(third);
  EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(third, 0), 4).status().ok());
  spec.clear_initial_weights();
  spec.set_resume_from("first@4");
  const std::string resumed = *cluster_.Submit(spec);
  EXPECT_EQ(cluster_.Status(resumed).spec().resume_from(), third + "@4");

  spec.set_resume_from("nobody@4");
  const absl::Status none = cluster_.Submit(spec).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("no job has the id or the name \"nobody\""));
}

TEST_F(CheckpointLifecycleTest, GoesOnFromAnotherJobsCheckpoint) {
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

// What was learned of the training data goes with the weights to whoever starts from them.
TEST_F(CheckpointLifecycleTest, ThePreparationOfTheDataGoesWithTheWeights) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_checkpoint()->set_keep(3);
  const std::string source = *cluster_.Submit(spec);
  cluster_.MeetAll(source);
  const v1::TaskOrder learning = *cluster_.Order(source, 0);
  EXPECT_EQ(learning.data_preparation(), "");
  EXPECT_TRUE(cluster_.Checkpoint(learning, 4, "learned").status().ok());
  // The generation that learned it goes on as it is.
  EXPECT_EQ(cluster_.Order(source, 1)->data_preparation(), "");
  // The next one goes back to the checkpoint, also after the coordinator's own restart.
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  cluster_.RestartDaemon("s0");
  EXPECT_EQ(cluster_.Order(source, 1)->restore_uri(), "/checkpoints/" + source + "/4");
  EXPECT_EQ(cluster_.Order(source, 1)->data_preparation(), "learned");
  cluster_.Finish(source);

  spec.set_initial_weights(source + "@4");
  const std::string fine_tuned = *cluster_.Submit(spec);
  EXPECT_EQ(cluster_.Order(fine_tuned, 0)->data_preparation(), "learned");
  cluster_.Finish(fine_tuned);
  spec = SmallJob();
  spec.set_resume_from(source + "@4");
  const std::string resumed = *cluster_.Submit(spec);
  EXPECT_EQ(cluster_.Order(resumed, 0)->data_preparation(), "learned");
  cluster_.Finish(resumed);
  spec = SmallJob();
  spec.set_initial_weights(fine_tuned);
  spec.clear_stop();
  spec.mutable_stop()->set_evaluate_only(true);
  const std::string evaluation = *cluster_.Submit(spec);
  EXPECT_EQ(cluster_.Order(evaluation, 0)->data_preparation(), "learned");
}

TEST_F(CheckpointLifecycleTest, AFoldersManifestTellsThePreparation) {
  v1::JobSpec spec = SmallJob();
  v1::CsvData& csv = *spec.mutable_data()->mutable_csv();
  csv.set_path("/data/a.csv");
  csv.set_label("y");
  csv.add_numeric("x");
  spec.set_initial_weights("/exported/weights");
  const absl::Status absent = cluster_.Submit(spec).status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(absent.message()),
              HasSubstr("initial_weights is \"/exported/weights\", whose manifest says"));
  cluster_.archive.preparations["/exported/weights"] = "kept";
  const auto job = cluster_.Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(cluster_.Order(*job, 0)->data_preparation(), "kept");
  cluster_.Finish(*job);

  // The scale of a number to predict.
  spec.mutable_data()->mutable_libsvm()->set_path("/data/a.libsvm");
  spec.mutable_model()->mutable_linear_regression();
  const auto regression = cluster_.Submit(spec);
  ASSERT_TRUE(regression.ok()) << regression.status();
  EXPECT_EQ(cluster_.Order(*regression, 0)->data_preparation(), "kept");
}

TEST_F(CheckpointLifecycleTest, AJobThatGoesOnFromBeyondItsEndFails) {
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

}  // namespace
}  // namespace muster
