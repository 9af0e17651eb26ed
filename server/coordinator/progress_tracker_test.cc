#include "server/coordinator/progress_tracker.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

v1::ReportProgressRequest Report(uint32_t slot, uint64_t clock, uint64_t steps) {
  v1::ReportProgressRequest report;
  report.mutable_task()->set_slot(slot);
  report.set_clock(clock);
  report.set_steps(steps);
  report.set_examples(steps * 4);
  report.set_loss_sum(steps * 4 * 0.5);
  report.set_bytes_pushed(steps * 100);
  report.set_bytes_pulled(steps * 200);
  report.set_staleness_sum(steps * 3);
  report.set_staleness_max(5);
  report.set_training_seconds(steps * 0.25);
  return report;
}

TEST(ProgressTrackerTest, CombinesSlots) {
  ProgressTracker tracker(2, {});
  tracker.Add(Report(0, 10, 10), absl::Seconds(0));
  tracker.Add(Report(1, 6, 6), absl::Seconds(2));
  const v1::JobProgress progress = tracker.Progress(20);
  EXPECT_EQ(progress.step(), 6);
  EXPECT_EQ(progress.total_steps(), 20);
  EXPECT_DOUBLE_EQ(progress.loss(), 0.5);
  EXPECT_DOUBLE_EQ(progress.bytes_pushed_per_step(), 100);
  EXPECT_DOUBLE_EQ(progress.bytes_pulled_per_step(), 200);
  EXPECT_DOUBLE_EQ(progress.mean_staleness(), 3);
  EXPECT_EQ(progress.max_staleness(), 5);
  EXPECT_DOUBLE_EQ(progress.training_seconds(), 2.5);
  EXPECT_DOUBLE_EQ(progress.examples_per_second(), 12);
  EXPECT_DOUBLE_EQ(progress.seconds_left(), 14 / 3.0);
}

TEST(ProgressTrackerTest, RatesFollowTheLastSeconds) {
  ProgressTracker tracker(1, {});
  uint64_t clock = 0;
  for (int second = 0; second <= 100; ++second) {
    const uint64_t steps = second < 50 ? 1 : 10;
    clock += steps;
    tracker.Add(Report(0, clock, steps), absl::Seconds(second));
  }
  EXPECT_NEAR(tracker.Progress(clock + 100).examples_per_second(), 40, 1e-9);
  EXPECT_NEAR(tracker.Progress(clock + 100).seconds_left(), 10, 1e-9);
}

TEST(ProgressTrackerTest, TheLossIsThatOfTheLastReports) {
  ProgressTracker tracker(1, {});
  tracker.Add(Report(0, 1, 1), absl::Seconds(0));
  v1::ReportProgressRequest later = Report(0, 2, 1);
  later.set_loss_sum(1);
  tracker.Add(later, absl::Seconds(1));
  EXPECT_DOUBLE_EQ(tracker.Progress(0).loss(), 0.25);
}

TEST(ProgressTrackerTest, RollsBackClocksButNotCosts) {
  ProgressTracker tracker(2, {});
  tracker.Add(Report(0, 10, 10), absl::Seconds(0));
  tracker.Add(Report(1, 10, 10), absl::Seconds(1));
  tracker.RollBack(4);
  EXPECT_EQ(tracker.step(), 4);
  EXPECT_DOUBLE_EQ(tracker.Progress(20).training_seconds(), 2.5);
  tracker.Add(Report(0, 5, 1), absl::Seconds(2));
  EXPECT_EQ(tracker.clock(0), 5);
  EXPECT_EQ(tracker.step(), 4);
}

TEST(ProgressTrackerTest, ContinuesFromARecord) {
  ProgressTracker tracker(2, {});
  tracker.Add(Report(0, 10, 10), absl::Seconds(0));
  tracker.Add(Report(1, 9, 9), absl::Seconds(1));
  ProgressTracker restored(2, tracker.record());
  EXPECT_EQ(restored.step(), 9);
  EXPECT_EQ(restored.Progress(20).bytes_pushed_per_step(), 100);
  EXPECT_EQ(restored.Progress(20).examples_per_second(), 0) << "no rate without time";
}

}  // namespace
}  // namespace muster
