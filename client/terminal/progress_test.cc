#include "client/terminal/progress.h"

#include "gtest/gtest.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

TEST(ProgressTest, RunningJobShowsEverything) {
  v1::JobStatus status;
  status.set_state(v1::RUNNING);
  v1::JobProgress& progress = *status.mutable_progress();
  progress.set_step(50);
  progress.set_total_steps(200);
  progress.set_loss(1.25);
  progress.set_examples_per_second(12345);
  progress.set_seconds_left(90);
  v1::EvaluationResult& evaluation = *status.add_evaluations();
  evaluation.set_metric("accuracy");
  evaluation.set_value(0.875);
  EXPECT_EQ(ProgressLine(status, 8),
            "RUNNING    [##......] step 50/200  loss 1.2500  accuracy 0.8750  12,345 examples/s  "
            "1m30s left");
}

TEST(ProgressTest, AJobThatSucceededSaysOfWhichStepItsLossIs) {
  v1::JobStatus status;
  status.set_state(v1::SUCCEEDED);
  status.mutable_progress()->set_step(200);
  status.mutable_progress()->set_total_steps(200);
  status.mutable_progress()->set_loss(0.5);
  EXPECT_EQ(ProgressLine(status, 0), "SUCCEEDED  step 200/200  loss 0.5000 (last step)");
  status.mutable_progress()->set_step(0);
  EXPECT_EQ(ProgressLine(status, 0), "SUCCEEDED  step 0/200") << "an evaluation trains nothing";
}

TEST(ProgressTest, AMetricWithoutAValueShowsNone) {
  v1::JobStatus status;
  status.set_state(v1::RUNNING);
  status.mutable_progress()->set_step(50);
  v1::EvaluationResult& evaluation = *status.add_evaluations();
  evaluation.set_metric("auc");
  evaluation.set_no_value("all are of one class");
  EXPECT_EQ(ProgressLine(status, 0), "RUNNING    step 50  auc none");
}

TEST(ProgressTest, PendingJobSaysForWhatItWaits) {
  v1::JobStatus status;
  status.set_state(v1::PENDING);
  status.set_waiting_for("1 of 2 worker slots free");
  EXPECT_EQ(ProgressLine(status, 8), "PENDING    1 of 2 worker slots free");
}

TEST(ProgressTest, EndedStates) {
  v1::JobStatus status;
  for (auto state : {v1::SUCCEEDED, v1::FAILED, v1::CANCELLED}) {
    status.set_state(state);
    EXPECT_TRUE(HasEnded(status));
  }
  status.set_state(v1::RECOVERING);
  EXPECT_FALSE(HasEnded(status));
}

}  // namespace
}  // namespace muster
