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
  void Settle(absl::Duration now = absl::ZeroDuration(), uint64_t step = 1) {
    history_.Settle(slots_, step, now, 5);
  }

  const std::vector<uint32_t> slots_ = {0, 1};
  JobHistory history_{2};
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
  history_.End(5);
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
  EXPECT_EQ(history_.last_step(), 10);
}

TEST_F(JobHistoryTest, SamplesSpeedAndStalenessOnceASecond) {
  v1::ReportProgressRequest report = Report(0, 1, 1);
  report.set_tokens(100);
  report.set_staleness_sum(3);
  report.set_staleness_max(2);
  history_.AddReport(report, 5);
  Settle(absl::Seconds(100), 1);
  // When the first step began is not known.
  EXPECT_EQ(Find(history_, "speed/examples_per_second"), nullptr);
  EXPECT_EQ(Values(history_, "staleness/mean"), (Pairs{{1, 3}}));
  report.set_clock(2);
  report.set_steps(1);
  history_.AddReport(report, 5);
  Settle(absl::Seconds(100.5), 2);
  EXPECT_EQ(Find(history_, "speed/examples_per_second"), nullptr);
  report.set_clock(3);
  history_.AddReport(report, 5);
  Settle(absl::Seconds(102), 3);
  EXPECT_EQ(Values(history_, "speed/examples_per_second"), (Pairs{{3, 10}}));
  EXPECT_EQ(Values(history_, "speed/tokens_per_second"), (Pairs{{3, 100}}));
  EXPECT_EQ(Values(history_, "staleness/max"), (Pairs{{1, 2}, {3, 2}}));
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
  EXPECT_EQ(history_.last_step(), 1);
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
  // Slots have series nevertheless, and known names go on.
  report = Report(1, 1'000'000, 1);
  AddSeries(report, "train/7", 2, {1});
  AddSeries(report, "train/280", 2, {1});
  history_.AddReport(report, 5);
  EXPECT_EQ(Values(history_, "train/7").size(), 2);
  EXPECT_EQ(Values(history_, "slot/1/step").size(), 1);
  EXPECT_EQ(Find(history_, "train/280"), nullptr);
}

TEST(HistoryLimitsTest, AllPointsOfAJobTakeLessThan64MiB) {
  using L = HistoryLimits;
  static_assert(sizeof(SeriesPoint) == 64);
  const uint64_t job =
      L::kLongSeries * L::kMostPoints + (L::kMostSeries - L::kLongSeries) * L::kFewerPoints;
  EXPECT_EQ(PointsOfSlots(1), 256);
  EXPECT_EQ(PointsOfSlots(200), 256);
  for (uint32_t slots : {1u, 200u, 256u, 257u, 1000u, 4096u}) {
    const uint64_t waiting = std::min<uint64_t>(64 * slots, (4 << 20) / 64);
    EXPECT_LE(64 * (job + 5 * slots * PointsOfSlots(slots) + waiting), 62 << 20) << slots;
  }
}

TEST(JobHistoryPropertyTest, TenMillionPointsStayWithinTheBound) {
  // 250 names with 40,000 steps each.
  JobHistory history(1);
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
  history.End(5);
  for (const JobHistory::Named& named : history.series()) {
    EXPECT_LE(named.series.points().size(), 512);
    EXPECT_GE(named.series.points().size(), 128);
  }
}

}  // namespace
}  // namespace muster
