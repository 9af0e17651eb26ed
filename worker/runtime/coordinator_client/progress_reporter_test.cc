#include "worker/runtime/coordinator_client/progress_reporter.h"

#include <atomic>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/metrics.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

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
  step.compute_seconds = 0.25;
  step.exposed_communication_seconds = 0.125;
  step.waiting_seconds = 0.125;
  step.bytes_sent = 1000;
  step.bytes_received = 2000;
  step.other_bytes_sent = 3;
  step.other_bytes_received = 4;
  return step;
}

// Speaks only when told to.
ProgressReporterOptions Quiet() {
  ProgressReporterOptions options;
  options.interval = absl::InfiniteDuration();
  return options;
}

TEST(ProgressReporterTest, StepsOfOneIntervalBecomeOneReport) {
  FakeCoordinatorClient coordinator;
  ProgressReporter reporter(coordinator, Quiet());
  reporter.Add(Step(1));
  reporter.Add(Step(2));
  reporter.Finish();
  ASSERT_EQ(coordinator.progress().size(), 1);
  v1::ReportProgressRequest report = coordinator.progress()[0];
  EXPECT_EQ(report.clock(), 2);
  EXPECT_EQ(report.examples(), 20);
  EXPECT_EQ(report.steps(), 2);
  EXPECT_EQ(report.bytes_pushed(), 200);
  EXPECT_EQ(report.bytes_pulled(), 400);
  EXPECT_EQ(report.staleness_sum(), 3);
  EXPECT_EQ(report.staleness_max(), 2);
  EXPECT_EQ(report.training_seconds(), 1);
  EXPECT_EQ(report.compute_seconds(), 0.5);
  EXPECT_EQ(report.exposed_communication_seconds(), 0.25);
  EXPECT_EQ(report.waiting_seconds(), 0.25);
  EXPECT_EQ(report.bytes_sent(), 2000);
  EXPECT_EQ(report.bytes_received(), 4000);
  EXPECT_EQ(report.other_bytes_sent(), 6);
  EXPECT_EQ(report.other_bytes_received(), 8);
  EXPECT_GT(report.process_cpu_seconds(), 0);
  EXPECT_GT(report.process_peak_bytes(), 0);
}

TEST(ProgressReporterTest, FlushTellsWhatIsPendingNow) {
  FakeCoordinatorClient coordinator;
  ProgressReporter reporter(coordinator, Quiet());
  reporter.Add(Step(1));
  reporter.Flush();
  ASSERT_EQ(coordinator.progress().size(), 1);
  EXPECT_EQ(coordinator.progress()[0].steps(), 1);
}

TEST(ProgressReporterTest, TheLastReportTellsTheLossOfTheLastStepWheneverOthersWereSent) {
  for (const bool flushed : {false, true}) {
    FakeCoordinatorClient coordinator;
    ProgressReporter reporter(coordinator, Quiet());
    StepReport step = Step(1);
    step.loss_weight = 20;
    reporter.Add(step);
    step.clock = 2;
    step.loss_sum = 5;
    reporter.Add(step);
    if (flushed) {
      reporter.Flush();
      EXPECT_EQ(coordinator.progress()[0].loss_sum(), 7);
      EXPECT_EQ(coordinator.progress()[0].loss_weight(), 40);
    }
    reporter.Finish();
    ASSERT_EQ(coordinator.progress().size(), flushed ? 2 : 1);
    const v1::ReportProgressRequest last = coordinator.progress().back();
    EXPECT_EQ(last.clock(), 2);
    EXPECT_EQ(last.loss_sum(), 5);
    EXPECT_EQ(last.loss_weight(), 20);
    EXPECT_EQ(last.steps(), flushed ? 0 : 2);
    EXPECT_EQ(last.examples(), flushed ? 0 : 20);
  }
}

// An evaluation after the last step uses memory, too.
TEST(ProgressReporterTest, FlushTellsWhatTheProcessHasUsedSince) {
  FakeCoordinatorClient coordinator;
  ProgressReporter reporter(coordinator, Quiet());
  reporter.Add(Step(1));
  reporter.Flush();
  constexpr size_t kBytes = 64 << 20;
  {
    std::vector<char> more(coordinator.progress()[0].process_peak_bytes() + kBytes, 1);
    reporter.Flush();
  }
  ASSERT_EQ(coordinator.progress().size(), 2);
  EXPECT_EQ(coordinator.progress()[1].clock(), 1);
  EXPECT_EQ(coordinator.progress()[1].steps(), 0);
  EXPECT_GT(coordinator.progress()[1].process_peak_bytes(),
            coordinator.progress()[0].process_peak_bytes() + kBytes / 2);
}

TEST(ProgressReporterTest, AReportWithoutAnAnswerIsSentAgainUnchanged) {
  FakeCoordinatorClient coordinator;
  coordinator.FailProgress({absl::UnavailableError("away"), absl::UnavailableError("away")});
  ProgressReporterOptions options = Quiet();
  options.round = 5;
  ProgressReporter reporter(coordinator, options);
  reporter.Add(Step(1));
  reporter.Flush();
  EXPECT_TRUE(coordinator.progress().empty());
  StepReport step = Step(2);
  step.loss_sum = 7;
  reporter.Add(step);
  reporter.Finish();
  ASSERT_EQ(coordinator.progress().size(), 2);
  for (int i = 0; i < 2; ++i) {
    const v1::ReportProgressRequest report = coordinator.progress()[i];
    EXPECT_EQ(report.round(), 5);
    EXPECT_EQ(report.number(), i + 1);
    EXPECT_EQ(report.clock(), i + 1);
    EXPECT_EQ(report.steps(), 1);
    EXPECT_EQ(report.loss_sum(), i == 0 ? 2 : 7);
  }
  EXPECT_EQ(reporter.status(), absl::OkStatus());
}

TEST(ProgressReporterTest, LoadsOfExpertsAreSumsSinceTheLastReport) {
  FakeCoordinatorClient coordinator;
  ProgressReporterOptions options = Quiet();
  options.experts = 3;
  ProgressReporter reporter(coordinator, options);
  StepReport step = Step(1);
  // The second block is dense.
  step.expert_loads = {1, 2, 0, 0, 0, 0, 0, 0, 3};
  reporter.Add(step);
  step.clock = 2;
  step.expert_loads = {1, 0, 1, 0, 0, 0, 1, 1, 1};
  reporter.Add(step);
  reporter.Add(Step(3));
  reporter.Flush();
  reporter.Add(Step(4));
  reporter.Finish();
  ASSERT_EQ(coordinator.progress().size(), 2);
  const v1::ExpertLoads loads = coordinator.progress()[0].expert_loads();
  EXPECT_EQ(loads.experts(), 3);
  EXPECT_THAT(loads.blocks(), ElementsAre(0, 2));
  EXPECT_THAT(loads.tokens(), ElementsAre(2, 2, 1, 1, 1, 4));
  EXPECT_FALSE(coordinator.progress()[1].has_expert_loads());
}

TEST(ProgressReporterTest, DroppedChoicesComeWithLoads) {
  FakeCoordinatorClient coordinator;
  ProgressReporterOptions options = Quiet();
  options.experts = 2;
  options.drops_choices = true;
  ProgressReporter reporter(coordinator, options);
  StepReport step = Step(1);
  step.expert_loads = {1, 2, 5, 0, 0, 0, 3, 0, 0};
  reporter.Add(step);
  reporter.Finish();
  const v1::ExpertLoads loads = coordinator.progress()[0].expert_loads();
  EXPECT_THAT(loads.blocks(), ElementsAre(0, 2));
  EXPECT_THAT(loads.tokens(), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(loads.dropped(), ElementsAre(5, 0));
}

TEST(ProgressReporterTest, ManyLoadsComeWithEveryFewReportsAndTheLast) {
  FakeCoordinatorClient coordinator;
  ProgressReporterOptions options = Quiet();
  options.experts = 1024;
  ProgressReporter reporter(coordinator, options);
  // Loads are sent in one of as many reports as there are 2,048 numbers.
  StepReport step = Step(1);
  step.expert_loads.assign(5 * 1024, 1);
  for (int report = 0; report < 7; ++report) {
    reporter.Add(step);
    reporter.Flush();
  }
  reporter.Finish();
  std::vector<uint64_t> loads;
  for (const v1::ReportProgressRequest& report : coordinator.progress()) {
    loads.push_back(report.has_expert_loads() ? report.expert_loads().tokens(0) : 0);
  }
  EXPECT_THAT(loads, ElementsAre(0, 0, 3, 0, 0, 3, 0, 1));
}

std::vector<std::pair<uint64_t, double>> Values(const v1::ReportedSeries& series) {
  std::vector<std::pair<uint64_t, double>> values;
  for (const v1::SeriesPoint& point : series.points()) {
    values.push_back({point.last_step(), point.last()});
  }
  return values;
}

using Pairs = std::vector<std::pair<uint64_t, double>>;

TEST(ProgressReporterTest, AReportHasTheValuesOfEachStep) {
  FakeCoordinatorClient coordinator;
  ProgressReporter reporter(coordinator, Quiet());
  StepReport start;
  start.clock = 4;
  reporter.Add(start);
  StepReport step = Step(5);
  step.tokens = 70;
  step.learning_rate = 0.5;
  step.loss_scale = 1024;
  reporter.Add(step);
  step.clock = 6;
  step.loss_sum = 8;
  step.loss_weight = 40;
  step.gradient_norm = 3;
  reporter.Add(step);
  reporter.Finish();
  const v1::ReportProgressRequest report = coordinator.progress().at(0);
  EXPECT_EQ(report.tokens(), 140);
  ASSERT_EQ(report.series_size(), 4);
  EXPECT_EQ(report.series(0).name(), "train/loss");
  EXPECT_EQ(Values(report.series(0)), (Pairs{{5, 0.2}, {6, 0.2}}));
  EXPECT_EQ(report.series(0).weight(), 25);
  EXPECT_EQ(report.series(1).name(), "train/learning_rate");
  EXPECT_EQ(Values(report.series(1)), (Pairs{{5, 0.5}, {6, 0.5}}));
  EXPECT_EQ(report.series(2).name(), "train/gradient_norm");
  EXPECT_EQ(Values(report.series(2)), (Pairs{{6, 3}}));
  EXPECT_EQ(report.series(3).name(), "train/loss_scale");
  EXPECT_EQ(report.series(3).weight(), 0);
}

TEST(ProgressReporterTest, ValuesOfALostReportComeBeforeLaterOnes) {
  FakeCoordinatorClient coordinator;
  coordinator.FailProgress({absl::UnavailableError("away")});
  ProgressReporter reporter(coordinator, Quiet());
  reporter.Add(Step(1));
  reporter.Flush();
  EXPECT_TRUE(coordinator.progress().empty());
  reporter.Add(Step(2));
  reporter.Flush();
  EXPECT_EQ(Values(coordinator.progress().at(0).series(0)), (Pairs{{1, 0.2}}));
  EXPECT_EQ(coordinator.progress()[0].series(0).weight(), 10);
  EXPECT_EQ(Values(coordinator.progress().at(1).series(0)), (Pairs{{2, 0.2}}));
}

TEST(ProgressReporterTest, ManyStepsAreJoinedOnEachSideOfACheckpoint) {
  FakeCoordinatorClient coordinator;
  ProgressReporterOptions options = Quiet();
  options.checkpoint_every = 999;
  ProgressReporter reporter(coordinator, options);
  for (uint64_t clock = 1; clock <= 1000; ++clock) reporter.Add(Step(clock));
  reporter.Flush();
  const v1::ReportProgressRequest report = coordinator.progress().at(0);
  const v1::ReportedSeries& losses = report.series(0);
  EXPECT_LE(losses.points_size(), 64);
  uint64_t next = 1;
  bool ends_at_checkpoint = false;
  for (const v1::SeriesPoint& point : losses.points()) {
    EXPECT_EQ(point.first_step(), next);
    EXPECT_EQ(point.values(), point.last_step() - point.first_step() + 1);
    next = point.last_step() + 1;
    ends_at_checkpoint = ends_at_checkpoint || point.last_step() == 999;
  }
  EXPECT_EQ(next, 1001);
  EXPECT_TRUE(ends_at_checkpoint);
  EXPECT_EQ(losses.weight(), 10);
}

TEST(ProgressReporterTest, FencingShowsInItsStatus) {
  FakeCoordinatorClient coordinator;
  coordinator.FailProgress({absl::AbortedError("replaced")});
  ProgressReporter reporter(coordinator, Quiet());
  reporter.Add(Step(1));
  reporter.Finish();
  EXPECT_EQ(reporter.status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(coordinator.progress().empty());
}

TEST(ProgressReporterTest, NothingToTellIsNotTold) {
  FakeCoordinatorClient coordinator;
  ProgressReporter reporter(coordinator, Quiet());
  reporter.Finish();
  EXPECT_TRUE(coordinator.progress().empty());
}

TEST(ProgressReporterTest, PollsWithItsClockWhenNoStepEnds) {
  FakeCoordinatorClient coordinator;
  v1::ReportProgressReply reply;
  reply.set_meet_after_round(3);
  reply.set_lost_round(2);
  coordinator.SetProgressReply(reply);
  ProgressReporterOptions options;
  std::atomic<uint64_t> lost = 0;
  options.round_lost = [&lost](uint64_t round) { lost = round; };
  options.interval = absl::Milliseconds(1);
  options.poll = absl::Milliseconds(2);
  StepReport start;
  start.clock = 7;
  {
    ProgressReporter reporter(coordinator, options);
    reporter.Add(start);
    // The next may be under way; the one after it is sent when that has been answered.
    coordinator.AwaitProgress(coordinator.progress().size() + 2);
    EXPECT_EQ(reporter.meet_after_round(), 3);
    EXPECT_EQ(lost, 2u);
  }
  EXPECT_EQ(coordinator.progress().back().clock(), 7);
  EXPECT_EQ(coordinator.progress().back().steps(), 0);
  EXPECT_TRUE(coordinator.collectives().empty());
}

TEST(ProgressReporterTest, TellsOfAnEndThatIsPastAtOnce) {
  FakeCoordinatorClient coordinator;
  v1::ReportProgressReply reply;
  reply.set_end_after_clock(5);
  coordinator.SetProgressReply(reply);
  ProgressReporterOptions options = Quiet();
  int ends = 0;
  options.end_at_once = [&ends] { ++ends; };
  ProgressReporter reporter(coordinator, options);
  EXPECT_EQ(reporter.end_after_clock(), 0);
  reporter.Add(Step(4));
  reporter.Flush();
  EXPECT_EQ(reporter.end_after_clock(), 5);
  EXPECT_EQ(ends, 0) << "the task still makes a step";
  reply.set_end_after_clock(1);
  coordinator.SetProgressReply(reply);
  reporter.Flush();
  EXPECT_EQ(reporter.end_after_clock(), 1) << "the last word counts";
  EXPECT_EQ(ends, 1);
  coordinator.SetProgressReply({});
  reporter.Flush();
  EXPECT_EQ(reporter.end_after_clock(), 1) << "others have ended already";
}

TEST(ProgressReporterTest, TheCoordinatorMayAskForALongerIntervalAndGetsTheLastReportAllTheSame) {
  FakeCoordinatorClient coordinator;
  v1::ReportProgressReply reply;
  reply.set_report_interval_ms(3'600'000);
  coordinator.SetProgressReply(reply);
  ProgressReporterOptions options;
  options.interval = absl::Milliseconds(1);
  ProgressReporter reporter(coordinator, options);
  reporter.Add(Step(1));
  coordinator.AwaitProgress(1);
  reporter.Add(Step(2));
  // Waits for the answer before.
  reporter.Flush();
  EXPECT_EQ(reporter.interval(), absl::Hours(1));
  EXPECT_EQ(coordinator.progress().back().clock(), 2);
  reporter.Add(Step(3));
  reporter.Finish();
  EXPECT_EQ(coordinator.progress().size(), 3);
  EXPECT_EQ(coordinator.progress().back().clock(), 3);
}

TEST(ProgressReporterTest, TheCoordinatorCannotHaveItReportMoreOftenThanItWould) {
  FakeCoordinatorClient coordinator;
  v1::ReportProgressReply reply;
  reply.set_report_interval_ms(1);
  coordinator.SetProgressReply(reply);
  ProgressReporter reporter(coordinator, Quiet());
  reporter.Add(Step(1));
  reporter.Flush();
  EXPECT_EQ(reporter.interval(), absl::InfiniteDuration());
}

TEST(ProgressReporterTest, TellsOfCollectiveCallsWhenAsked) {
  FakeCoordinatorClient coordinator;
  v1::ReportProgressReply reply;
  reply.set_collectives_wanted(true);
  coordinator.SetProgressReply(reply);
  ProgressReporterOptions options = Quiet();
  options.collectives = [](v1::ReportCollectivesRequest& request) {
    request.add_calls()->set_label("bucket 3");
  };
  ProgressReporter reporter(coordinator, options);
  reporter.Add(Step(1));
  reporter.Finish();
  ASSERT_EQ(coordinator.collectives().size(), 1);
  EXPECT_EQ(coordinator.collectives()[0].calls(0).label(), "bucket 3");
}

TEST(ProgressReporterTest, ACollectiveCallIsReportedOnce) {
  FakeCoordinatorClient coordinator;
  uint64_t calls = 0;
  ProgressReporterOptions options = Quiet();
  options.add_calls = [&calls](v1::ReportProgressRequest& request) {
    v1::CollectiveTimes& times = *request.add_collective_times();
    times.set_operation("all_reduce");
    times.add_counts(calls);
    times.set_seconds(static_cast<double>(calls) / 2);
  };
  coordinator.FailProgress({absl::OkStatus(), absl::UnavailableError("away")});
  ProgressReporter reporter(coordinator, options);
  for (const uint64_t after : {2, 3, 7}) {
    calls = after;
    reporter.Flush();
  }
  // The second report had no answer; it comes again as it was, before the third.
  ASSERT_EQ(coordinator.progress().size(), 3);
  int report = 0;
  for (const uint64_t counts : {2, 1, 4}) {
    const v1::CollectiveTimes times = coordinator.progress()[report++].collective_times(0);
    EXPECT_EQ(times.operation(), "all_reduce");
    EXPECT_EQ(times.counts(0), counts);
    EXPECT_EQ(times.seconds(), static_cast<double>(counts) / 2);
  }
}

}  // namespace
}  // namespace muster
