#include "server/coordinator/requests/checkpoint_requests.h"

#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class CheckpointRequestsTest : public ::testing::Test {
 protected:
  CheckpointRequestsTest() {
    for (const char* server : {"s0", "s1"}) cluster_.AddServer(server);
    for (const char* worker : {"w0", "w1"}) cluster_.AddWorker(worker, 2);
  }

  // A job that runs and keeps checkpoints at clocks 2, 4, 6.
  std::string RunningJob() {
    v1::JobSpec spec = SmallJob();
    spec.mutable_checkpoint()->set_keep(5);
    const std::string job = *cluster_.Submit(spec);
    cluster_.MeetAll(job);
    for (uint64_t clock : {2, 4, 6}) {
      EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), clock).status().ok());
    }
    return job;
  }

  static std::string Uri(const std::string& job, uint64_t clock) {
    return "/checkpoints/" + job + "/" + std::to_string(clock);
  }

  CheckpointRequests& requests() { return cluster_.coordinator().checkpoints(); }

  absl::StatusOr<v1::ListCheckpointsReply> List(const std::string& job) {
    Answer<v1::ListCheckpointsReply> answer;
    requests().List(job, answer.call());
    cluster_.Run();
    return answer.get();
  }

  absl::StatusOr<v1::DeleteCheckpointReply> Delete(const std::string& job, uint64_t clock,
                                                   bool with_deltas = false) {
    v1::DeleteCheckpointRequest request;
    request.set_job_id(job);
    request.set_clock(clock);
    request.set_with_deltas(with_deltas);
    Answer<v1::DeleteCheckpointReply> answer;
    requests().Delete(request, answer.call());
    cluster_.Run();
    return answer.get();
  }

  std::vector<uint64_t> Clocks(const std::string& job) {
    std::vector<uint64_t> clocks;
    const v1::ListCheckpointsReply list = *List(job);
    for (const v1::CheckpointStatus& checkpoint : list.checkpoints()) {
      clocks.push_back(checkpoint.clock());
    }
    return clocks;
  }

  SimulatedCluster cluster_;
};

TEST_F(CheckpointRequestsTest, ListsWhatThereIsOldestFirst) {
  cluster_.archive.bases[4] = 2;
  const std::string job = RunningJob();
  cluster_.archive.folders.erase(Uri(job, 6));
  const v1::ListCheckpointsReply list = *List(job);
  ASSERT_EQ(list.checkpoints_size(), 3);
  EXPECT_EQ(list.checkpoints(0).clock(), 2);
  EXPECT_EQ(list.checkpoints(0).uri(), Uri(job, 2));
  EXPECT_EQ(list.checkpoints(0).bytes(), 100);
  EXPECT_FALSE(list.checkpoints(0).has_base_clock());
  EXPECT_EQ(list.checkpoints(1).base_clock(), 2);
  EXPECT_EQ(list.checkpoints(1).damage(), "");
  EXPECT_EQ(list.checkpoints(2).clock(), 6);
  EXPECT_EQ(list.checkpoints(2).damage(), "no such folder");
  EXPECT_EQ(List("j0-none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointRequestsTest, MarksAndFindsTheBest) {
  const std::string job = RunningJob();
  v1::CheckpointRequest request;
  request.set_job_id(job);
  request.set_best(true);
  const absl::Status none = requests().Folder(request).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("has no best checkpoint"));
  cluster_.EvaluateAll(job, 4, 5);
  cluster_.EvaluateAll(job, 6, 4);
  EXPECT_EQ(*requests().Folder(request), Uri(job, 4));
  const v1::ListCheckpointsReply list = *List(job);
  for (const v1::CheckpointStatus& checkpoint : list.checkpoints()) {
    EXPECT_EQ(checkpoint.best(), checkpoint.clock() == 4) << checkpoint.clock();
  }
  request.set_clock(6);
  EXPECT_EQ(requests().Folder(request).status().code(), absl::StatusCode::kInvalidArgument);
  // The best of those that are left.
  ASSERT_TRUE(Delete(job, 4).ok());
  request.clear_clock();
  EXPECT_EQ(*requests().Folder(request), Uri(job, 6));
}

TEST_F(CheckpointRequestsTest, NamesTheFolderToVerify) {
  v1::JobSpec spec = SmallJob();
  v1::CheckpointRequest request;
  request.set_job_id(*cluster_.Submit(spec));
  EXPECT_EQ(requests().Folder(request).status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string job = RunningJob();
  request.set_job_id(job);
  EXPECT_EQ(*requests().Folder(request), Uri(job, 6));
  request.set_clock(2);
  EXPECT_EQ(*requests().Folder(request), Uri(job, 2));
  request.set_clock(3);
  const absl::Status none = requests().Folder(request).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("2, 4, 6"));
}

TEST_F(CheckpointRequestsTest, AFindingAboutWhatWasRemovedMeanwhileIsNone) {
  const std::string job = RunningJob();
  v1::VerifyCheckpointReply found;
  found.add_damage("a file is missing");
  EXPECT_EQ(requests().Verified(job, Uri(job, 2), found)->damage_size(), 1);
  ASSERT_TRUE(Delete(job, 2).ok());
  EXPECT_EQ(requests().Verified(job, Uri(job, 2), found).status().code(),
            absl::StatusCode::kAborted);
}

TEST_F(CheckpointRequestsTest, DeletesOneAndIsSafeToRepeat) {
  const std::string job = RunningJob();
  EXPECT_THAT(Delete(job, 4)->clocks(), ElementsAre(4));
  EXPECT_THAT(Clocks(job), ElementsAre(2, 6));
  EXPECT_THAT(cluster_.archive.folders, UnorderedElementsAre(Uri(job, 2), Uri(job, 6)));
  EXPECT_TRUE(cluster_.HasEvent(job, "checkpoint at clock 4 deleted"));
  EXPECT_THAT(Delete(job, 4)->clocks(), IsEmpty());
  cluster_.RestartCoordinator();
  EXPECT_THAT(Clocks(job), ElementsAre(2, 6)) << "it was not stored";
  EXPECT_EQ(Delete("j0-none", 4).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointRequestsTest, KeepsWhatARunningJobGoesBackTo) {
  const std::string job = RunningJob();
  const absl::Status last = Delete(job, 6).status();
  EXPECT_EQ(last.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(last.message()), HasSubstr(Uri(job, 6)));
  EXPECT_THAT(Clocks(job), ElementsAre(2, 4, 6));
  EXPECT_EQ(cluster_.archive.folders.size(), 3u);
  v1::CancelJobRequest cancel;
  cancel.set_job_id(job);
  ASSERT_TRUE(cluster_.coordinator().jobs().Cancel(cancel).ok());
  EXPECT_TRUE(Delete(job, 6).ok()) << "nobody goes back to it any more";
  EXPECT_EQ(cluster_.Status(job).checkpoint_clock(), 4);
}

TEST_F(CheckpointRequestsTest, KeepsWhatAnotherJobStartsFrom) {
  const std::string job = RunningJob();
  cluster_.Finish(job);
  v1::JobSpec spec = SmallJob();
  spec.set_initial_weights(job);
  const std::string other = *cluster_.Submit(spec);
  const absl::Status needed = Delete(job, 10).status();
  EXPECT_EQ(needed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(needed.message()), HasSubstr(other));
  EXPECT_TRUE(Delete(job, 2).ok());
  cluster_.Finish(other);
  EXPECT_TRUE(Delete(job, 10).ok());
}

TEST_F(CheckpointRequestsTest, AJobStartsFromTheWeightsOfTheCheckpointThatIsNamed) {
  const std::string job = RunningJob();
  cluster_.Finish(job);
  v1::JobSpec spec = SmallJob();
  spec.set_initial_weights(job + "@4");
  const auto started = cluster_.Submit(spec);
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(cluster_.Order(*started, 0)->restore_uri(), Uri(job, 4));
  EXPECT_TRUE(cluster_.Order(*started, 0)->restore_weights_only());
  spec.set_initial_weights(job + "@5");
  const absl::Status none = cluster_.Submit(spec).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("it has those at 2, 4, 6"));
  spec.set_initial_weights(job + "@x");
  EXPECT_EQ(cluster_.Submit(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointRequestsTest, OfAnEndedJobWithoutACheckpointNoneIsPromised) {
  const std::string job = *cluster_.Submit(SmallJob());
  v1::CheckpointRequest request;
  request.set_job_id(job);
  EXPECT_THAT(std::string(requests().Folder(request).status().message()),
              HasSubstr("has no checkpoint yet; wait for its first"));
  cluster_.MeetAll(job);
  cluster_.End(*cluster_.Order(job, 1), static_cast<int>(absl::StatusCode::kOutOfRange),
               "the job diverged at step 4");
  const absl::Status none = requests().Folder(request).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.message()), HasSubstr("has ended as FAILED and has no checkpoint"));
  EXPECT_THAT(std::string(none.message()), HasSubstr("diverged at step 4"));
}

TEST_F(CheckpointRequestsTest, DeltasGoWithTheirBaseOnlyWhenAskedTo) {
  cluster_.archive.bases = {{4, 2}, {6, 4}};
  const std::string job = RunningJob();
  cluster_.Finish(job);
  const absl::Status refused = Delete(job, 2).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("4, 6"));
  EXPECT_THAT(Delete(job, 2, true)->clocks(), ElementsAre(6, 4, 2));
  EXPECT_THAT(Clocks(job), ElementsAre(10));
}

TEST_F(CheckpointRequestsTest, WhatCannotBeStoredDoesNotHappen) {
  const std::string job = RunningJob();
  cluster_.store.failing = true;
  EXPECT_EQ(Delete(job, 2).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(cluster_.archive.folders.size(), 3u);
  cluster_.store.failing = false;
  EXPECT_TRUE(Delete(job, 2).ok());
}

}  // namespace
}  // namespace muster
