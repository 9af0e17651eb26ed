#include "server/coordinator/job/progress_tracker.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace muster {
namespace {

v1::ReportProgressRequest ProgressReport(uint32_t slot, uint64_t clock, uint64_t steps) {
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
  report.set_compute_seconds(steps * 0.125);
  report.set_exposed_communication_seconds(steps * 0.0625);
  report.set_waiting_seconds(steps * 0.03125);
  report.set_bytes_sent(steps * 30);
  report.set_bytes_received(steps * 40);
  report.set_other_bytes_sent(steps * 5);
  report.set_other_bytes_received(steps * 6);
  report.set_process_cpu_seconds(clock * 2);
  report.set_process_peak_bytes(1000 + clock);
  report.set_process_mapped_bytes(100 + clock);
  return report;
}

constexpr auto kEach = ProgressTracker::StepIsDone::kByEverySlot;
constexpr auto kExamples = ProgressTracker::LossWeight::kExamples;

TEST(ProgressTrackerTest, DroppedExamplesAddUpBesideThoseThatCount) {
  ProgressTracker tracker(2, kEach, kExamples, {});
  v1::ReportProgressRequest report = ProgressReport(0, 2, 2);
  report.set_dropped_examples(4);
  tracker.Add(report, absl::Seconds(1));
  tracker.Add(report, absl::Seconds(2));
  EXPECT_EQ(tracker.record().dropped_examples(), 8);
  EXPECT_EQ(tracker.record().examples(), 16);
  EXPECT_EQ(tracker.totals().dropped_examples, 8);
}

TEST(ProgressTrackerTest, TheLossIsTheLastThatWasReportedEvenIfItIsNotFinite) {
  ProgressTracker tracker(2, kEach, ProgressTracker::LossWeight::kTold, {});
  v1::ReportProgressRequest report = ProgressReport(0, 1, 1);
  report.clear_loss_sum();
  tracker.Add(report, absl::Seconds(1));
  EXPECT_FALSE(tracker.Progress(0).has_loss()) << "none was reported";
  report.set_loss_sum(3);
  report.set_loss_weight(2);
  tracker.Add(report, absl::Seconds(2));
  EXPECT_EQ(tracker.Progress(0).loss(), 1.5);
  report.set_loss_sum(std::numeric_limits<double>::quiet_NaN());
  tracker.Add(report, absl::Seconds(3));
  EXPECT_TRUE(std::isnan(tracker.Progress(0).loss()));
  report.clear_loss_sum();
  report.clear_loss_weight();
  tracker.Add(report, absl::Seconds(4));
  EXPECT_TRUE(std::isnan(tracker.Progress(0).loss())) << "nothing else was reported since";
  report.set_loss_sum(1);
  report.set_loss_weight(2);
  tracker.Add(report, absl::Seconds(5));
  EXPECT_EQ(tracker.Progress(0).loss(), 0.5);
}

TEST(ProgressTrackerTest, ALastReportReplacesTheLossAndAddsNoExamples) {
  ProgressTracker tracker(1, kEach, kExamples, {});
  tracker.Add(ProgressReport(0, 4, 4), absl::Seconds(1));
  v1::ReportProgressRequest last;
  last.mutable_task()->set_slot(0);
  last.set_clock(4);
  last.set_loss_sum(3);
  last.set_loss_weight(12);
  tracker.Add(last, absl::Seconds(2));
  EXPECT_DOUBLE_EQ(tracker.Progress(4).loss(), 0.25);
  EXPECT_EQ(tracker.record().examples(), 16);
  EXPECT_EQ(tracker.record().steps(), 4);
}

TEST(ProgressTrackerTest, CombinesSlots) {
  ProgressTracker tracker(2, kEach, kExamples, {});
  tracker.Add(ProgressReport(0, 10, 10), absl::Seconds(0));
  tracker.Add(ProgressReport(1, 6, 6), absl::Seconds(2));
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

TEST(ProgressTrackerTest, StepsTakenTogetherDoNotWaitForWhoIsLeftOut) {
  ProgressTracker tracker(2, ProgressTracker::StepIsDone::kTogether, kExamples, {});
  tracker.Add(ProgressReport(0, 4, 4), absl::ZeroDuration());
  tracker.Add(ProgressReport(1, 4, 4), absl::ZeroDuration());
  tracker.Add(ProgressReport(0, 9, 5), absl::Seconds(1));
  EXPECT_EQ(tracker.step(), 9);
  EXPECT_EQ(tracker.clock(1), 4);
}

TEST(ProgressTrackerTest, RatesFollowTheLastSeconds) {
  ProgressTracker tracker(1, kEach, kExamples, {});
  uint64_t clock = 0;
  for (int second = 0; second <= 100; ++second) {
    const uint64_t steps = second < 50 ? 1 : 10;
    clock += steps;
    tracker.Add(ProgressReport(0, clock, steps), absl::Seconds(second));
  }
  EXPECT_NEAR(tracker.Progress(clock + 100).examples_per_second(), 40, 1e-9);
  EXPECT_NEAR(tracker.Progress(clock + 100).seconds_left(), 10, 1e-9);
}

TEST(ProgressTrackerTest, TheLossIsThatOfTheLastReports) {
  ProgressTracker tracker(1, kEach, kExamples, {});
  tracker.Add(ProgressReport(0, 1, 1), absl::Seconds(0));
  v1::ReportProgressRequest later = ProgressReport(0, 2, 1);
  later.set_loss_sum(1);
  tracker.Add(later, absl::Seconds(1));
  EXPECT_DOUBLE_EQ(tracker.Progress(0).loss(), 0.25);
}

TEST(ProgressTrackerTest, RollsBackClocksButNotCosts) {
  ProgressTracker tracker(2, kEach, kExamples, {});
  tracker.Add(ProgressReport(0, 10, 10), absl::Seconds(0));
  tracker.Add(ProgressReport(1, 10, 10), absl::Seconds(1));
  tracker.RollBack(4);
  EXPECT_EQ(tracker.step(), 4);
  EXPECT_DOUBLE_EQ(tracker.Progress(20).training_seconds(), 2.5);
  tracker.Add(ProgressReport(0, 5, 1), absl::Seconds(2));
  EXPECT_EQ(tracker.clock(0), 5);
  EXPECT_EQ(tracker.step(), 4);
}

TEST(ProgressTrackerTest, KnowsWhichStepsWereMadeAgain) {
  ProgressTracker tracker(1, kEach, kExamples, {});
  tracker.Add(ProgressReport(0, 10, 10), absl::Seconds(0));
  tracker.RollBack(4);
  const double before = tracker.training_seconds();
  // The first six of these eight steps had been made.
  tracker.Add(ProgressReport(0, 12, 8), absl::Seconds(1));
  const v1::SlotProgress& slot = tracker.record().slots(0);
  EXPECT_EQ(slot.redone_steps(), 6);
  EXPECT_DOUBLE_EQ(slot.redone_seconds(), (tracker.training_seconds() - before) * 6 / 8);
  const double after_roll_back = slot.redone_seconds();
  // The task itself says so of a step that it repeats in the next round.
  v1::ReportProgressRequest repeated = ProgressReport(0, 13, 1);
  repeated.set_redone_steps(1);
  repeated.set_redone_seconds(0.5);
  tracker.Add(repeated, absl::Seconds(2));
  EXPECT_EQ(slot.redone_steps(), 7);
  EXPECT_DOUBLE_EQ(slot.redone_seconds(), after_roll_back + 0.5);
}

TEST(ProgressTrackerTest, SumsWhatEachSlotReports) {
  ProgressTracker tracker(2, kEach, kExamples, {});
  tracker.Add(ProgressReport(0, 4, 4), absl::Seconds(0));
  tracker.Add(ProgressReport(0, 10, 6), absl::Seconds(1));
  tracker.Add(ProgressReport(1, 6, 6), absl::Seconds(1));
  EXPECT_DOUBLE_EQ(tracker.Progress(20).bytes_sent_per_step(), 30);
  EXPECT_DOUBLE_EQ(tracker.training_seconds(), 2.5);
  ProgressTracker restored(2, kEach, kExamples, tracker.record());
  restored.RollBack(5);
  v1::TaskStatus task;
  restored.Describe(0, task);
  EXPECT_EQ(task.step(), 5);
  EXPECT_EQ(task.steps(), 10);
  EXPECT_DOUBLE_EQ(task.training_seconds(), 2.5);
  EXPECT_DOUBLE_EQ(task.compute_seconds(), 1.25);
  EXPECT_DOUBLE_EQ(task.exposed_communication_seconds(), 0.625);
  EXPECT_DOUBLE_EQ(task.waiting_seconds(), 0.3125);
  EXPECT_EQ(task.bytes_pushed(), 1000);
  EXPECT_EQ(task.bytes_pulled(), 2000);
  EXPECT_EQ(task.bytes_sent(), 300);
  EXPECT_EQ(task.bytes_received(), 400);
  EXPECT_EQ(task.other_bytes_sent(), 50);
  EXPECT_EQ(task.other_bytes_received(), 60);
  EXPECT_DOUBLE_EQ(task.process_cpu_seconds(), 20) << "of the process, so the last value";
  EXPECT_EQ(task.process_peak_bytes(), 1010);
  EXPECT_EQ(task.process_mapped_bytes(), 110);
}

TEST(ProgressTrackerTest, TakesANumberedReportOnce) {
  ProgressTracker tracker(2, kEach, kExamples, {});
  const auto numbered = [](uint64_t incarnation, uint64_t round, uint64_t number) {
    v1::ReportProgressRequest report = ProgressReport(1, 3, 3);
    report.mutable_task()->set_incarnation(incarnation);
    report.set_round(round);
    report.set_number(number);
    return report;
  };
  EXPECT_TRUE(tracker.Add(numbered(1, 1, 1), absl::Seconds(1)));
  EXPECT_FALSE(tracker.Add(numbered(1, 1, 1), absl::Seconds(2)));
  EXPECT_TRUE(tracker.Add(numbered(1, 1, 2), absl::Seconds(2)));
  EXPECT_FALSE(tracker.Add(numbered(1, 1, 1), absl::Seconds(2))) << "late";
  EXPECT_EQ(tracker.totals().steps, 6);
  EXPECT_EQ(tracker.totals().examples, 24);
  EXPECT_EQ(tracker.record().steps(), 6);
  EXPECT_EQ(tracker.times()[1].sums().steps, 6);
  // The next process knows what is in the stored sums.
  ProgressTracker restored(2, kEach, kExamples, tracker.record());
  EXPECT_FALSE(restored.Add(numbered(1, 1, 2), absl::Seconds(3)));
  EXPECT_TRUE(restored.Add(numbered(1, 2, 1), absl::Seconds(3))) << "another round";
  EXPECT_TRUE(restored.Add(numbered(2, 1, 1), absl::Seconds(3))) << "another task";
  EXPECT_EQ(restored.record().steps(), 12);
}

TEST(ProgressTrackerTest, ContinuesFromARecord) {
  ProgressTracker tracker(2, kEach, kExamples, {});
  tracker.Add(ProgressReport(0, 10, 10), absl::Seconds(0));
  tracker.Add(ProgressReport(1, 9, 9), absl::Seconds(1));
  ProgressTracker restored(2, kEach, kExamples, tracker.record());
  EXPECT_EQ(restored.step(), 9);
  EXPECT_EQ(restored.Progress(20).bytes_pushed_per_step(), 100);
  EXPECT_EQ(restored.Progress(20).examples_per_second(), 0) << "no rate without time";
}

}  // namespace
}  // namespace muster
