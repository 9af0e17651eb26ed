#include "server/coordinator/history/job_history.h"

#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/history/series_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/metrics.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/history/last_step_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

v1::ReportedSeries& AddSeries(v1::ReportProgressRequest& report, const std::string& name,
                              uint64_t first, const std::vector<double>& values) {
  v1::ReportedSeries& series = *report.add_series();
  series.set_name(name);
  series.set_weight(1);
  for (double value : values) ToProto(OneValue(first++, value), *series.add_points());
  return series;
}

v1::ReportProgressRequest Report(uint32_t slot, uint64_t clock, uint64_t steps) {
  v1::ReportProgressRequest report;
  report.mutable_task()->set_slot(slot);
  report.set_clock(clock);
  report.set_steps(steps);
  report.set_examples(10 * steps);
  report.set_training_seconds(0.4 * steps);
  report.set_compute_seconds(0.2 * steps);
  report.set_exposed_communication_seconds(0.1 * steps);
  report.set_waiting_seconds(0.05 * steps);
  report.set_process_peak_bytes(1000);
  return report;
}

const Series* Find(const JobHistory& history, absl::string_view name) {
  for (const JobHistory::Named& named : history.series()) {
    if (named.name == name) return &named.series;
  }
  return nullptr;
}

std::vector<std::pair<uint64_t, double>> Values(const JobHistory& history, absl::string_view name) {
  std::vector<std::pair<uint64_t, double>> values;
  const Series* series = Find(history, name);
  if (series == nullptr) return values;
  for (const SeriesPoint& point : series->points()) {
    values.push_back({point.last_step, point.last});
  }
  return values;
}

using Pairs = std::vector<std::pair<uint64_t, double>>;

class JobHistoryTest : public ::testing::Test {
 protected:
  void Settle(absl::Duration now = absl::ZeroDuration()) { history_.Settle(slots_, now, 5); }

  const std::vector<uint32_t> slots_ = {0, 1};
  JobHistory history_{{.slots = 2}};
};

TEST_F(JobHistoryTest, TakesWhatTasksReport) {
  v1::ReportProgressRequest first = Report(0, 2, 2);
  AddSeries(first, "train/loss", 1, {4, 2});
  AddSeries(first, "train/learning_rate", 1, {0.1, 0.2});
  history_.AddReport(first, 5);
  v1::ReportProgressRequest second = Report(1, 2, 2);
  AddSeries(second, "train/loss", 1, {2, 0});
  history_.AddReport(second, 5);
  Settle();
  EXPECT_EQ(Values(history_, "train/loss"), (Pairs{{1, 3}, {2, 1}}));
  EXPECT_EQ(Values(history_, "train/learning_rate"), (Pairs{{1, 0.1}, {2, 0.2}}));
  EXPECT_EQ(Find(history_, "train/loss")->points()[0].unix_ms, 5);
  EXPECT_EQ(Values(history_, "slot/1/step"), (Pairs{{2, 0.4}}));
  EXPECT_EQ(Values(history_, "slot/1/compute"), (Pairs{{2, 0.2}}));
  EXPECT_EQ(Values(history_, "slot/1/communication"), (Pairs{{2, 0.1}}));
  EXPECT_EQ(Values(history_, "slot/1/data"), (Pairs{{2, 0.05}}));
  EXPECT_EQ(Values(history_, "slot/0/memory_bytes"), (Pairs{{2, 1000}}));
}

TEST_F(JobHistoryTest, IgnoresWhatNoTaskReports) {
  v1::ReportProgressRequest report = Report(0, 2, 0);
  for (const char* name : {"", "train/", "Train/x", "train/x y", "slot/0/step", "held_out/accuracy",
                           "speed/mfu", "train/\xff"}) {
    AddSeries(report, name, 1, {1});
  }
  AddSeries(report, absl::StrCat("train/", std::string(200, 'a')), 1, {1});
  // Steps that the slot has not closed, and what is no number.
  AddSeries(report, "train/a", 3, {1});
  AddSeries(report, "train/b", 1, {std::nan(""), std::numeric_limits<double>::infinity()});
  AddSeries(report, "train/loss", 1, {std::nan("")});
  history_.AddReport(report, 5);
  history_.End(absl::ZeroDuration(), 5);
  EXPECT_THAT(history_.series(), IsEmpty());
}

TEST_F(JobHistoryTest, AJobThatOnlyEvaluatesHasPointsAtStep0) {
  v1::EvaluationResult result;
  result.set_metric("auc");
  result.set_loss(0.5);
  result.set_no_value("one class");
  history_.AddEvaluation(result, 5);
  EXPECT_THAT(Values(history_, "held_out/auc"), IsEmpty());
  EXPECT_EQ(Values(history_, "held_out/loss"), (Pairs{{0, 0.5}}));
  result.set_clock(10);
  result.clear_no_value();
  result.set_value(0.75);
  history_.AddEvaluation(result, 5);
  history_.AddEvaluation(result, 6);
  EXPECT_EQ(Values(history_, "held_out/auc"), (Pairs{{10, 0.75}}));
  EXPECT_EQ(LastStep(history_), 10);
}

TEST_F(JobHistoryTest, SamplesSpeedAndStaleness) {
  const auto report = [this](uint64_t clock, absl::Duration now, uint64_t staleness) {
    v1::ReportProgressRequest report = Report(0, clock, 1);
    report.set_tokens(100);
    report.set_staleness_sum(staleness);
    report.set_staleness_max(staleness);
    history_.AddReport(report, 5);
    history_.Settle({0}, now, 5);
  };
  report(1, absl::Seconds(90), 5);
  // The begin of the first step is not known; each step took 0.4 s.
  report(2, absl::Seconds(100), 3);
  report(3, absl::Seconds(100.2), 0);
  report(4, absl::Seconds(102), 2);
  EXPECT_EQ(Values(history_, "speed/examples_per_second"), (Pairs{{2, 25}, {4, 10}}));
  EXPECT_EQ(Values(history_, "speed/tokens_per_second"), (Pairs{{2, 250}, {4, 100}}));
  EXPECT_EQ(Values(history_, "staleness/mean"), (Pairs{{2, 4}, {4, 1}}));
  EXPECT_EQ(Values(history_, "staleness/max"), (Pairs{{2, 5}, {4, 2}})) << "it may fall";
  EXPECT_EQ(Find(history_, "speed/mfu"), nullptr);
  // The rest at the end counts, unless it took too short a time.
  report(5, absl::Seconds(102.1), 0);
  JobHistory ended = history_;
  ended.End(absl::Seconds(102.2), 5);
  EXPECT_EQ(Values(ended, "speed/examples_per_second").back(), std::pair(uint64_t{5}, 50.0));
  history_.End(absl::Seconds(102.05), 5);
  EXPECT_EQ(Values(history_, "speed/examples_per_second").size(), 2);
}

TEST_F(JobHistoryTest, AJobThatEndsWithItsFirstReportsHasItsSpeed) {
  JobHistory history({.slots = 2, .flops_per_example = 20, .peak_flops = 1000});
  // Nothing is settled between the reports of the slots and the end.
  history.AddReport(Report(0, 2, 2), 5);
  history.Settle(slots_, absl::Seconds(1), 5);
  history.AddReport(Report(1, 2, 2), 5);
  history.End(absl::Seconds(1), 5);
  EXPECT_EQ(Values(history, "speed/examples_per_second"), (Pairs{{2, 50}}));
  EXPECT_EQ(Values(history, "speed/mfu"), (Pairs{{2, 0.5}}));
}

TEST_F(JobHistoryTest, AShortJobHasACurveAndALongOneAPointASecond) {
  std::vector<int64_t> times;
  for (uint64_t step = 1; step <= 200; ++step) {
    const int64_t ms = 500'000 + 50 * static_cast<int64_t>(step);
    history_.AddReport(Report(0, step, 1), ms);
    history_.Settle({0}, absl::Milliseconds(ms), ms);
  }
  for (const SeriesPoint& point : Find(history_, "speed/examples_per_second")->points()) {
    times.push_back(point.unix_ms - 500'000);
  }
  EXPECT_THAT(std::vector<int64_t>(times.begin(), times.begin() + 5),
              ElementsAre(100, 350, 600, 850, 1100));
  EXPECT_EQ(times.back() - times[times.size() - 2], 1000);
}

TEST_F(JobHistoryTest, ShowsTheShareOfThePeakWhereItIsKnown) {
  // Two workers of 1,000 operations a second each, and examples of 20.
  JobHistory history({.slots = 2, .flops_per_example = 20, .peak_flops = 1000});
  for (uint64_t step = 1; step <= 3; ++step) {
    for (uint32_t slot : slots_) history.AddReport(Report(slot, step, 1), 5);
    history.Settle(slots_, absl::Seconds(step), 5);
  }
  EXPECT_EQ(Values(history, "speed/examples_per_second"), (Pairs{{2, 50}, {3, 20}}));
  EXPECT_EQ(Values(history, "speed/mfu"), (Pairs{{2, 0.5}, {3, 0.2}}));
}

TEST_F(JobHistoryTest, SpeedIsThatOfAllSlotsWheneverTheyReport) {
  // Steps take 30 s; slot 1 reports them a little later than slot 0, and ticks come between them.
  // The slots were at different steps when they were first heard of.
  constexpr absl::Duration kLate = absl::Milliseconds(120);
  const auto settle_until = [&](absl::Duration begin, absl::Duration end) {
    for (absl::Duration now = begin; now < end; now += absl::Milliseconds(50)) Settle(now);
  };
  for (uint64_t step = 10; step <= 14; ++step) {
    const absl::Duration now = absl::Seconds(30) * step;
    if (step > 10) history_.AddReport(Report(0, step, 1), 5);
    settle_until(now, now + kLate);
    history_.AddReport(Report(1, step, 1), 5);
    settle_until(now + kLate, now + absl::Seconds(5));
  }
  EXPECT_EQ(Values(history_, "speed/examples_per_second"),
            (Pairs{{11, 50}, {12, 20 / 30.0}, {13, 20 / 30.0}, {14, 20 / 30.0}}));
}

TEST_F(JobHistoryTest, AReportThatComesAgainDoesNotCountTwice) {
  const auto settle = [this](double seconds) { history_.Settle({0}, absl::Seconds(seconds), 5); };
  for (uint64_t step = 1; step <= 2; ++step) {
    history_.AddReport(Report(0, step, 1), 5);
    settle(static_cast<double>(step));
  }
  v1::ReportProgressRequest report = Report(0, 4, 2);
  report.set_tokens(200);
  report.set_staleness_sum(6);
  report.set_staleness_max(4);
  history_.AddReport(report, 5);
  // The report comes again, and then with two more steps.
  history_.AddReport(report, 5);
  report = Report(0, 6, 4);
  report.set_tokens(400);
  report.set_staleness_sum(12);
  report.set_staleness_max(4);
  history_.AddReport(report, 5);
  settle(4);
  EXPECT_EQ(Values(history_, "speed/examples_per_second"), (Pairs{{2, 25}, {6, 20}}));
  EXPECT_EQ(Values(history_, "speed/tokens_per_second"), (Pairs{{6, 200}}));
  EXPECT_EQ(Values(history_, "staleness/mean"), (Pairs{{6, 3}}));
}

TEST_F(JobHistoryTest, GoingBackCutsAllSeriesAndLeavesAMark) {
  history_.SetBoundaries({.clocks = {1}});
  for (uint32_t slot : slots_) {
    v1::ReportProgressRequest report = Report(slot, 1, 1);
    AddSeries(report, "train/loss", 1, {1});
    history_.AddReport(report, 5);
    report = Report(slot, 3, 2);
    AddSeries(report, "train/loss", 2, {2, 3});
    AddSeries(report, "train/loss_scale", 2, {2, 3});
    history_.AddReport(report, 5);
  }
  Settle();
  history_.CutAfter({.clock = 1, .reached = 3, .unix_ms = 6});
  EXPECT_EQ(Values(history_, "train/loss"), (Pairs{{1, 1}}));
  EXPECT_THAT(Values(history_, "train/loss_scale"), IsEmpty());
  EXPECT_EQ(Values(history_, "slot/0/step"), (Pairs{{1, 0.4}}));
  EXPECT_THAT(history_.marks(), ElementsAre(JobHistory::Mark{1, 3, 6}));
  EXPECT_EQ(LastStep(history_), 1);
  v1::ReportProgressRequest report = Report(0, 2, 1);
  AddSeries(report, "train/loss", 2, {7});
  history_.AddReport(report, 5);
  report.mutable_task()->set_slot(1);
  history_.AddReport(report, 5);
  Settle();
  EXPECT_EQ(Values(history_, "train/loss"), (Pairs{{1, 1}, {2, 7}}));
}

TEST_F(JobHistoryTest, TakesAtMost256NamesAndShortensLaterSeries) {
  v1::ReportProgressRequest report = Report(0, 1'000'000, 0);
  for (int i = 0; i < 300; ++i) AddSeries(report, absl::StrCat("train/", i), 1, {1});
  history_.AddReport(report, 5);
  EXPECT_EQ(history_.series().size(), 256);
  // The coordinator's own series are still added, and known names go on.
  report = Report(1, 1'000'000, 1);
  AddSeries(report, "train/loss", 2, {1});
  AddSeries(report, "train/7", 2, {1});
  AddSeries(report, "train/280", 2, {1});
  history_.AddReport(report, 5);
  EXPECT_EQ(Values(history_, "train/7").size(), 2);
  EXPECT_EQ(Values(history_, "slot/1/step").size(), 1);
  EXPECT_EQ(Find(history_, "train/280"), nullptr);
  v1::EvaluationResult result;
  result.set_metric("auc");
  history_.AddEvaluation(result, 5);
  Settle();
  for (uint64_t step = 1; step <= 2; ++step) {
    for (uint32_t slot : slots_) {
      report = Report(slot, 1'000'000 + step, 1);
      report.set_tokens(1);
      report.set_staleness_max(1);
      history_.AddReport(report, 5);
    }
    Settle(absl::Seconds(step));
  }
  for (const char* name :
       {"train/loss", "held_out/auc", "held_out/loss", "speed/examples_per_second",
        "speed/tokens_per_second", "staleness/mean", "staleness/max"}) {
    EXPECT_EQ(Values(history_, name).empty(), false) << name;
  }
}

TEST(HistoryLimitsTest, AllPointsOfAJobTakeLessThan64MiB) {
  using L = HistoryLimits;
  static_assert(sizeof(SeriesPoint) == 64);
  const uint64_t job = (L::kMostOwn + L::kLongReported) * L::kMostPoints +
                       (L::kMostReported - L::kLongReported) * L::kFewerPoints;
  EXPECT_EQ(PointsOfSlots(1), 256);
  EXPECT_EQ(PointsOfSlots(200), 256);
  for (uint32_t slots : {1u, 200u, 256u, 257u, 1000u, 4096u}) {
    const uint64_t waiting = std::min<uint64_t>(64 * slots, (4 << 20) / 64);
    EXPECT_LE(64 * (job + 5 * slots * PointsOfSlots(slots) + waiting), 63 << 20) << slots;
  }
}

TEST(JobHistoryPropertyTest, TenMillionPointsStayWithinTheBound) {
  // 250 names with 40,000 steps each.
  JobHistory history({.slots = 1});
  history.SetBoundaries({.every = 1000});
  constexpr uint64_t kSteps = 40'000, kAtOnce = 50;
  v1::ReportProgressRequest report;
  for (int i = 0; i < 250; ++i) AddSeries(report, absl::StrCat("train/", i), 1, {});
  for (uint64_t step = 1; step <= kSteps; step += kAtOnce) {
    for (v1::ReportedSeries& series : *report.mutable_series()) {
      series.clear_points();
      for (uint64_t s = step; s < step + kAtOnce; ++s) {
        ToProto(OneValue(s, static_cast<double>(s)), *series.add_points());
      }
    }
    report.set_clock(step + kAtOnce - 1);
    history.AddReport(report, 5);
  }
  size_t points = 0;
  for (const JobHistory::Named& named : history.series()) {
    points += named.series.points().size();
    uint64_t next = 1;
    for (const SeriesPoint& point : named.series.points()) {
      ASSERT_EQ(point.first_step, next);
      ASSERT_EQ(point.min, static_cast<double>(point.first_step));
      ASSERT_EQ(point.max, static_cast<double>(point.last_step));
      next = point.last_step + 1;
    }
    ASSERT_EQ(next, kSteps + 1);
  }
  EXPECT_EQ(history.series().size(), 250);
  EXPECT_LE(points * sizeof(SeriesPoint), 38 << 20);
  history.End(absl::ZeroDuration(), 5);
  for (const JobHistory::Named& named : history.series()) {
    EXPECT_LE(named.series.points().size(), 512);
    EXPECT_GE(named.series.points().size(), 128);
  }
}

}  // namespace
}  // namespace muster
