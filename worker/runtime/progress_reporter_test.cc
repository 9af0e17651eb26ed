#include "worker/runtime/progress_reporter.h"

#include "gtest/gtest.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/fake_coordinator_client.h"

namespace muster {
namespace {

StepReport Step(uint64_t clock) {
  StepReport step;
  step.clock = clock;
  step.loss_sum = 2;
  step.examples = 10;
  step.steps = 1;
  step.bytes_pushed = 100;
  step.bytes_pulled = 200;
  step.staleness_sum = clock;
  step.staleness_max = clock;
  step.training_seconds = 0.5;
  return step;
}

TEST(ProgressReporterTest, StepsOfOneIntervalBecomeOneReport) {
  FakeCoordinatorClient coordinator;
  ProgressReporter reporter(coordinator, absl::InfiniteDuration());
  reporter.Add(Step(1));
  reporter.Add(Step(2));
  reporter.Finish();
  ASSERT_EQ(coordinator.progress().size(), 1);
  v1::ReportProgressRequest report = coordinator.progress()[0];
  EXPECT_EQ(report.clock(), 2);
  EXPECT_EQ(report.loss_sum(), 4);
  EXPECT_EQ(report.examples(), 20);
  EXPECT_EQ(report.steps(), 2);
  EXPECT_EQ(report.bytes_pushed(), 200);
  EXPECT_EQ(report.bytes_pulled(), 400);
  EXPECT_EQ(report.staleness_sum(), 3);
  EXPECT_EQ(report.staleness_max(), 2);
  EXPECT_EQ(report.training_seconds(), 1);
}

TEST(ProgressReporterTest, ALostReportIsAddedToTheNext) {
  FakeCoordinatorClient coordinator;
  coordinator.FailProgress({absl::UnavailableError("away"), absl::UnavailableError("away")});
  ProgressReporter reporter(coordinator, absl::InfiniteDuration());
  reporter.Add(Step(1));
  reporter.Finish();
  ASSERT_EQ(coordinator.progress().size(), 1);
  EXPECT_EQ(coordinator.progress()[0].steps(), 1);
  EXPECT_EQ(reporter.status(), absl::OkStatus());
}

TEST(ProgressReporterTest, FencingShowsInItsStatus) {
  FakeCoordinatorClient coordinator;
  coordinator.FailProgress({absl::AbortedError("replaced")});
  ProgressReporter reporter(coordinator, absl::InfiniteDuration());
  reporter.Add(Step(1));
  reporter.Finish();
  EXPECT_EQ(reporter.status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(coordinator.progress().empty());
}

TEST(ProgressReporterTest, NothingToTellIsNotTold) {
  FakeCoordinatorClient coordinator;
  ProgressReporter reporter(coordinator, absl::InfiniteDuration());
  reporter.Finish();
  EXPECT_TRUE(coordinator.progress().empty());
}

}  // namespace
}  // namespace muster
