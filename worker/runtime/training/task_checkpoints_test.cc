#include "worker/runtime/training/task_checkpoints.h"

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "common/base/fake_clock_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A state of nothing but cuts.
class CutsOnly final : public TrainingState, public BackgroundCuts {
 public:
  absl::StatusOr<uint64_t> Start() override { return 0; }
  void SetRateFactor(double factor) override {}
  const LossScaler* loss_scaler() const override { return nullptr; }
  StrategyCounters counters() const override { return StrategyCounters(); }

  absl::StatusOr<CutFiles> Cut(uint64_t clock) override {
    calls.push_back(absl::StrCat("cut ", clock));
    CutFiles whole{.by_partition = {{0, "whole", 10, 11}}, .failure = ""};
    if (!whole_failures.empty()) {
      whole.failure = whole_failures.front();
      whole_failures.erase(whole_failures.begin());
    }
    return whole;
  }
  absl::StatusOr<CutEnd> EndCut(CutEnd mine) override {
    ends.push_back(mine);
    return others_end.value_or(mine);
  }
  BackgroundCuts& background_cuts() override { return *this; }

  absl::Status Take(uint64_t clock) override {
    calls.push_back(absl::StrCat("take ", clock));
    return absl::OkStatus();
  }
  void Write(uint64_t clock, absl::optional<uint64_t> base) override {
    calls.push_back(absl::StrCat("write ", clock, base ? absl::StrCat(" on ", *base) : ""));
  }
  bool Written() const override { return written; }
  absl::StatusOr<CutFiles> AwaitFiles() override {
    calls.push_back("files");
    return std::exchange(files, Both());
  }
  static CutFiles Both() {
    return {.by_partition = {{0, "f0", 10, 11}, {1, "f1", 20, 21}}, .failure = ""};
  }

  bool written = false;
  // The next answer of AwaitFiles.
  absl::StatusOr<CutFiles> files = Both();
  // Why the next whole cuts fail; empty: one does not.
  std::vector<std::string> whole_failures;
  // Rank 0's answer to another rank.
  absl::optional<CutEnd> others_end;
  std::vector<CutEnd> ends;
  std::vector<std::string> calls;
};

// Holds commits back.
class SlowCoordinator final : public CoordinatorClient {
 public:
  absl::StatusOr<v1::RendezvousReply> Rendezvous(v1::RendezvousRequest request) override {
    return inner_.Rendezvous(std::move(request));
  }
  absl::StatusOr<v1::ReportProgressReply> ReportProgress(
      v1::ReportProgressRequest request) override {
    return inner_.ReportProgress(std::move(request));
  }
  absl::Status ReportCollectives(v1::ReportCollectivesRequest request) override {
    return inner_.ReportCollectives(std::move(request));
  }
  absl::StatusOr<v1::ReportEvaluationReply> ReportEvaluation(
      v1::ReportEvaluationRequest request) override {
    return inner_.ReportEvaluation(std::move(request));
  }
  absl::StatusOr<v1::AdjustReply> Adjust(v1::AdjustRequest request) override {
    return inner_.Adjust(std::move(request));
  }
  absl::StatusOr<v1::VerifyStepReply> VerifyStep(v1::VerifyStepRequest request) override {
    return inner_.VerifyStep(std::move(request));
  }
  absl::Status CommitCheckpoint(v1::CommitCheckpointRequest request,
                                std::stop_token stop) override {
    if (away) {
      absl::Notification stopped;
      const std::stop_callback on_stop(stop, [&stopped] { stopped.Notify(); });
      stopped.WaitForNotification();
      return absl::CancelledError();
    }
    if (hold != nullptr) hold->WaitForNotification();
    const bool failure = !request.failure().empty();
    const absl::Status sent = inner_.CommitCheckpoint(std::move(request), stop);
    return answer.ok() || failure ? sent : answer;
  }
  absl::StatusOr<v1::ShardMap> GetShardMap(uint64_t min_version, absl::Duration wait) override {
    return inner_.GetShardMap(min_version, wait);
  }

  std::vector<uint64_t> Committed() const {
    std::vector<uint64_t> clocks;
    for (const auto& request : inner_.checkpoints()) {
      if (request.failure().empty()) clocks.push_back(request.clock());
    }
    return clocks;
  }
  std::vector<v1::CommitCheckpointRequest> Failures() const {
    std::vector<v1::CommitCheckpointRequest> failures;
    for (const auto& request : inner_.checkpoints()) {
      if (!request.failure().empty()) failures.push_back(request);
    }
    return failures;
  }
  const FakeCoordinatorClient& inner() const { return inner_; }

  absl::Notification* hold = nullptr;
  // True: commits are never answered.
  bool away = false;
  absl::Status answer;

 private:
  FakeCoordinatorClient inner_;
};

class TaskCheckpointsTest : public ::testing::Test {
 protected:
  TaskCheckpoints Make(bool commits = true, uint32_t full_every = 0) {
    return TaskCheckpoints({.commits = commits,
                            .full_every = full_every,
                            .schema = "schema",
                            .data_preparation = "preparation",
                            .rank_files = 2,
                            .log = [this](absl::string_view line) { log_.emplace_back(line); },
                            .wait =
                                [this](absl::Duration) {
                                  ++waits_;
                                  return !stopped_;
                                }},
                           cuts_, coordinator_, clock_);
  }
  // Takes a checkpoint, up to its commit.
  void TakeAll(TaskCheckpoints& checkpoints, uint64_t clock) {
    EXPECT_EQ(checkpoints.Take(clock, SeriesPosition::kMoreFollow), absl::OkStatus());
    EXPECT_EQ(checkpoints.Finish(), absl::OkStatus());
  }
  std::vector<std::string> TakeCalls() { return std::exchange(cuts_.calls, {}); }

  FakeClock clock_;
  CutsOnly cuts_;
  SlowCoordinator coordinator_;
  std::vector<std::string> log_;
  int waits_ = 0;
  bool stopped_ = false;
};

TEST_F(TaskCheckpointsTest, TrainingGoesOnWhileFilesAndCommitAreUnderWay) {
  absl::Notification hold;
  coordinator_.hold = &hold;
  TaskCheckpoints checkpoints = Make();
  ASSERT_EQ(checkpoints.Take(10, SeriesPosition::kMoreFollow), absl::OkStatus());
  EXPECT_THAT(TakeCalls(), ElementsAre("take 10", "write 10"));
  // Steps go by, and the files are not there.
  clock_.Advance(absl::Seconds(3));
  ASSERT_EQ(checkpoints.GoOn(), absl::OkStatus());
  EXPECT_THAT(TakeCalls(), IsEmpty());
  cuts_.written = true;
  ASSERT_EQ(checkpoints.GoOn(), absl::OkStatus());
  EXPECT_THAT(TakeCalls(), ElementsAre("files"));
  // The coordinator is away.
  ASSERT_EQ(checkpoints.GoOn(), absl::OkStatus());
  EXPECT_THAT(coordinator_.Committed(), IsEmpty());
  hold.Notify();
  ASSERT_EQ(checkpoints.Finish(), absl::OkStatus());
  ASSERT_THAT(coordinator_.Committed(), ElementsAre(10));
  const v1::CommitCheckpointRequest request = coordinator_.inner().checkpoints()[0];
  ASSERT_EQ(request.files_size(), 2);
  EXPECT_EQ(request.files(1).partition(), 1);
  EXPECT_EQ(request.files(1).path(), "f1");
  EXPECT_EQ(request.files(1).bytes(), 20);
  EXPECT_EQ(request.files(1).checksum(), 21);
  EXPECT_EQ(request.schema(), "schema");
  EXPECT_EQ(request.data_preparation(), "preparation");
  EXPECT_EQ(request.rank_files(), 2);
  EXPECT_EQ(request.seconds(), 3);
  // Nothing is left to do.
  ASSERT_EQ(checkpoints.GoOn(), absl::OkStatus());
  ASSERT_EQ(checkpoints.Finish(), absl::OkStatus());
  EXPECT_THAT(TakeCalls(), IsEmpty());
}

TEST_F(TaskCheckpointsTest, TheNextCutWaitsForTheOneUnderWay) {
  TaskCheckpoints checkpoints = Make();
  ASSERT_EQ(checkpoints.Take(10, SeriesPosition::kMoreFollow), absl::OkStatus());
  ASSERT_EQ(checkpoints.Take(20, SeriesPosition::kMoreFollow), absl::OkStatus());
  EXPECT_THAT(TakeCalls(), ElementsAre("take 10", "write 10", "files", "take 20", "write 20"));
  EXPECT_THAT(coordinator_.Committed(), ElementsAre(10));
  ASSERT_EQ(checkpoints.Take(30, SeriesPosition::kLast), absl::OkStatus());
  EXPECT_THAT(TakeCalls(), ElementsAre("files", "cut 30"));
  EXPECT_THAT(coordinator_.Committed(), ElementsAre(10, 20, 30)) << "the last one is waited for";
}

TEST_F(TaskCheckpointsTest, OthersOnlyTake) {
  TaskCheckpoints checkpoints = Make(/*commits=*/false, /*full_every=*/3);
  ASSERT_EQ(checkpoints.Take(10, SeriesPosition::kMoreFollow), absl::OkStatus());
  ASSERT_EQ(checkpoints.GoOn(), absl::OkStatus());
  ASSERT_EQ(checkpoints.Take(20, SeriesPosition::kLast), absl::OkStatus());
  EXPECT_THAT(TakeCalls(), ElementsAre("take 10", "cut 20"));
  EXPECT_THAT(coordinator_.Committed(), IsEmpty());
}

TEST_F(TaskCheckpointsTest, EverySoManythIsFullAndSoIsTheLast) {
  TaskCheckpoints checkpoints = Make(true, 3);
  for (const uint64_t clock : {10, 20, 30, 40, 50}) TakeAll(checkpoints, clock);
  ASSERT_EQ(checkpoints.Take(60, SeriesPosition::kLast), absl::OkStatus());
  EXPECT_EQ(absl::StrJoin(TakeCalls(), ", "),
            "take 10, write 10, files, take 20, write 20 on 10, files, take 30, write 30 on 20, "
            "files, take 40, write 40, files, take 50, write 50 on 40, files, cut 60");
}

TEST_F(TaskCheckpointsTest, ALostViewIsGivenUpAndTheNextIsFull) {
  TaskCheckpoints checkpoints = Make(true, 10);
  TakeAll(checkpoints, 10);
  cuts_.files = CutFiles{.by_partition = {{0, "f0", 10, 11}, {1, "", 0, 0}},
                         .failure = "partition 1 has no file: gone"};
  TakeAll(checkpoints, 20);
  TakeAll(checkpoints, 30);
  TakeAll(checkpoints, 40);
  EXPECT_EQ(absl::StrJoin(TakeCalls(), ", "),
            "take 10, write 10, files, take 20, write 20 on 10, files, take 30, write 30, files, "
            "take 40, write 40 on 30, files");
  EXPECT_THAT(coordinator_.Committed(), ElementsAre(10, 30, 40));
  EXPECT_THAT(log_, ElementsAre(HasSubstr("the checkpoint at step 20 is given up: partition 1")));
  // What was written of it goes before the next is taken.
  const auto failures = coordinator_.Failures();
  ASSERT_EQ(failures.size(), 1);
  EXPECT_EQ(failures[0].clock(), 20);
  EXPECT_EQ(failures[0].failure(), "partition 1 has no file: gone");
  EXPECT_FALSE(failures[0].tried_again());
  EXPECT_EQ(failures[0].files(0).path(), "f0");
}

TEST_F(TaskCheckpointsTest, TheLastOneIsTriedUntilItIsThere) {
  TaskCheckpoints checkpoints = Make();
  cuts_.whole_failures = {"no space left", "no space left"};
  ASSERT_EQ(checkpoints.Take(40, SeriesPosition::kLast), absl::OkStatus());
  EXPECT_THAT(TakeCalls(), ElementsAre("cut 40", "cut 40", "cut 40"));
  EXPECT_EQ(waits_, 2);
  EXPECT_THAT(coordinator_.Committed(), ElementsAre(40));
  const auto failures = coordinator_.Failures();
  ASSERT_EQ(failures.size(), 2);
  EXPECT_TRUE(failures[0].tried_again());
  EXPECT_THAT(log_, ElementsAre(HasSubstr("the last checkpoint, at step 40, is tried again"),
                                HasSubstr("step 40 is written now")));
  stopped_ = true;
  cuts_.whole_failures = {"no space left"};
  EXPECT_EQ(checkpoints.Take(50, SeriesPosition::kLast).code(), absl::StatusCode::kCancelled);
}

// Whoever does not commit hears of it from rank 0.
TEST_F(TaskCheckpointsTest, AllTryAgainWhenTheCommitFails) {
  TaskCheckpoints checkpoints = Make(/*commits=*/false);
  cuts_.others_end = CutEnd::kTryAgain;
  stopped_ = true;
  EXPECT_EQ(checkpoints.Take(40, SeriesPosition::kLast).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(coordinator_.Failures(), IsEmpty());
}

TEST_F(TaskCheckpointsTest, ABaseThatIsNotKeptMakesTheNextOneFull) {
  TaskCheckpoints checkpoints = Make(true, 10);
  TakeAll(checkpoints, 10);
  coordinator_.answer = absl::FailedPreconditionError("that at clock 10 is not kept any more");
  TakeAll(checkpoints, 20);
  coordinator_.answer = absl::OkStatus();
  TakeAll(checkpoints, 30);
  EXPECT_THAT(cuts_.calls.back(), "files");
  EXPECT_THAT(cuts_.calls[cuts_.calls.size() - 2], "write 30");
  EXPECT_THAT(log_, ElementsAre(HasSubstr("not kept any more")));
  EXPECT_EQ(checkpoints.coordinator_status(), absl::OkStatus());
}

// A task that ends for another reason does not wait for a coordinator that is away.
TEST_F(TaskCheckpointsTest, WhatIsUnderWayEndsWithTheTaker) {
  coordinator_.away = true;
  {
    TaskCheckpoints checkpoints = Make();
    ASSERT_EQ(checkpoints.Take(10, SeriesPosition::kMoreFollow), absl::OkStatus());
    cuts_.written = true;
    ASSERT_EQ(checkpoints.GoOn(), absl::OkStatus());
  }
  EXPECT_THAT(coordinator_.Committed(), IsEmpty());
}

TEST_F(TaskCheckpointsTest, ErrorsOfFilesAndCommitEndTraining) {
  TaskCheckpoints checkpoints = Make();
  cuts_.files = absl::PermissionDeniedError("cannot write there");
  ASSERT_EQ(checkpoints.Take(10, SeriesPosition::kMoreFollow), absl::OkStatus());
  cuts_.written = true;
  EXPECT_EQ(checkpoints.GoOn().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(checkpoints.coordinator_status(), absl::OkStatus());

  TaskCheckpoints fenced = Make();
  coordinator_.answer = absl::AbortedError("fenced");
  ASSERT_EQ(fenced.Take(10, SeriesPosition::kMoreFollow), absl::OkStatus());
  EXPECT_EQ(fenced.Finish().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(fenced.coordinator_status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace muster
