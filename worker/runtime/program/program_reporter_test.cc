#include "worker/runtime/program/program_reporter.h"

#include <cmath>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Takes no warnings.
void NoWarning(absl::string_view warning) { ADD_FAILURE() << warning; }

TEST(ProgramReporterTest, SendsEachStepOnceEvenIfReportsFail) {
  FakeCoordinatorClient coordinator;
  coordinator.FailProgress({absl::UnavailableError("away"), absl::UnavailableError("away")});
  RealClock clock;
  ProgramReporter reporter(coordinator, clock, /*first_step=*/4, NoWarning);
  for (uint64_t step = 5; step <= 8; ++step) {
    reporter.Add({.step = step,
                  .metrics = {{"loss", 1.0 / step}, {"odd", NAN}, {"rate", 0.5}},
                  .examples = 3});
  }
  reporter.Finish();
  uint64_t steps = 0, examples = 0, losses = 0, number = 0;
  std::map<std::string, int> points;
  for (const v1::ReportProgressRequest& request : coordinator.progress()) {
    EXPECT_EQ(request.number(), ++number) << "the same report is sent again";
    steps += request.steps();
    examples += request.examples();
    losses += request.loss_weight();
    for (const v1::ReportedSeries& series : request.series()) {
      points[series.name()] += series.points_size();
    }
  }
  EXPECT_EQ(steps, 4u);
  EXPECT_EQ(coordinator.progress().rbegin()->clock(), 8u);
  EXPECT_EQ(steps * 3, examples);
  EXPECT_EQ(steps, losses);
  EXPECT_EQ(points.count("train/odd"), 0u);
  EXPECT_EQ(points["train/loss"], 4);
  EXPECT_EQ(points["train/rate"], 4);
}

TEST(ProgramReporterTest, SendsManySeriesInPieces) {
  FakeCoordinatorClient coordinator;
  RealClock clock;
  std::vector<std::string> warnings;
  ProgramReporter reporter(coordinator, clock, 0,
                           [&](absl::string_view warning) { warnings.emplace_back(warning); });
  ProgramReport report{.step = 1};
  for (size_t i = 0; i < ProgramReporter::kMostNames; ++i) {
    report.metrics[absl::StrCat("m", i)] = 1;
  }
  reporter.Add(report);
  EXPECT_THAT(warnings, IsEmpty());
  // More are left out, in training and in evaluations; the loss is none of them.
  reporter.Add({.step = 1, .metrics = {{"loss", 2}, {"m0", 1}, {"more", 1}, {"yet_more", 1}}});
  reporter.Add({.step = 1, .evaluation = {{"m0", 1}}});
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("the metric more is left out")));
  reporter.Finish();
  EXPECT_THAT(coordinator.evaluations(), IsEmpty());
  uint64_t steps = 0;
  size_t series = 0;
  for (const v1::ReportProgressRequest& request : coordinator.progress()) {
    EXPECT_LE(request.ByteSizeLong(), 60u << 10);
    EXPECT_EQ(request.clock(), 1u);
    steps += request.steps();
    series += request.series_size();
  }
  EXPECT_EQ(steps, 1u);
  EXPECT_EQ(series, ProgramReporter::kMostNames + 1);
}

TEST(ProgramReporterTest, EvaluationsHaveTheirLossIfItIsKnown) {
  FakeCoordinatorClient coordinator;
  RealClock clock;
  ProgramReporter reporter(coordinator, clock, 0, NoWarning);
  reporter.Add({.step = 1, .evaluation = {{"accuracy", 0.5}, {"auc", 0.6}, {"loss", 0.25}}});
  reporter.Add({.step = 2, .evaluation = {{"accuracy", 0.7}, {"odd", NAN}}});
  reporter.Add({.step = 3, .evaluation = {{"loss", 0.2}}});
  reporter.Finish();
  std::string all;
  for (const v1::ReportEvaluationRequest& request : coordinator.evaluations()) {
    absl::StrAppend(&all, request.clock(), " ", request.metric(), " ", request.value(), " ",
                    request.loss_weight() == 1 ? absl::StrCat(request.loss_sum()) : "-", "\n");
  }
  EXPECT_EQ(all,
            "1 accuracy 0.5 0.25\n1 auc 0.6 0.25\n2 accuracy 0.7 -\n2 odd nan -\n3 loss 0.2 0.2\n");
}

TEST(ProgramReporterTest, AnEvaluationWithoutAnAnswerIsSentAgainAndARefusedOneIsNot) {
  FakeCoordinatorClient coordinator;
  bool away = true;
  coordinator.OnEvaluation([&away](const v1::ReportEvaluationRequest& request)
                               -> absl::StatusOr<v1::ReportEvaluationReply> {
    if (std::exchange(away, false)) return absl::UnavailableError("away");
    if (request.metric() == "bad") return absl::InvalidArgumentError("no such metric");
    return v1::ReportEvaluationReply();
  });
  RealClock clock;
  ProgramReporter reporter(coordinator, clock, 0, NoWarning);
  reporter.Add({.step = 1, .evaluation = {{"a", 1}, {"bad", 2}, {"c", 3}}});
  reporter.Add({.step = 2, .evaluation = {{"a", 4}}});
  reporter.Finish();
  std::string all;
  for (const v1::ReportEvaluationRequest& request : coordinator.evaluations()) {
    absl::StrAppend(&all, request.clock(), request.metric(), " ");
  }
  EXPECT_EQ(all, "1a 1a 1bad 1c 2a ");
}

TEST(ProgramReporterTest, WhatCannotBeTakenIsLeftOutWithOneWarning) {
  FakeCoordinatorClient coordinator;
  RealClock clock;
  std::vector<std::string> warnings;
  ProgramReporter reporter(coordinator, clock, 7,
                           [&](absl::string_view warning) { warnings.emplace_back(warning); });
  for (int repeats = 0; repeats < 2; ++repeats) {
    reporter.Add({.step = 6, .metrics = {{"loss", 1}}});
    reporter.Add({.step = 8, .metrics = {{"rate", 1}, {"Upper", 1}, {"a blank", 1}, {"", 1}}});
  }
  EXPECT_THAT(warnings, UnorderedElementsAre(HasSubstr("the report of step 6 is left out"),
                                             HasSubstr("the metric \"\" is left out")));
  reporter.Finish();
  for (const v1::ReportProgressRequest& request : coordinator.progress()) {
    EXPECT_EQ(request.loss_weight(), 0u);
    for (const v1::ReportedSeries& series : request.series()) {
      EXPECT_EQ(series.name(), "train/rate");
    }
  }
  EXPECT_EQ(coordinator.progress().rbegin()->clock(), 8u);
}

TEST(ProgramReporterTest, FiguresThatAreNotFiniteAreToldAsTheyAre) {
  FakeCoordinatorClient coordinator;
  RealClock clock;
  ProgramReporter reporter(coordinator, clock, 0, NoWarning);
  reporter.Add({.step = 1,
                .metrics = {{"loss", NAN}},
                .examples = 32,
                .evaluation = {{"accuracy", NAN}, {"loss", INFINITY}}});
  reporter.Finish();
  double loss = 0;
  uint64_t weight = 0;
  for (const v1::ReportProgressRequest& request : coordinator.progress()) {
    loss += request.loss_sum();
    weight += request.loss_weight();
    EXPECT_EQ(request.series_size(), 0);
  }
  EXPECT_TRUE(std::isnan(loss));
  EXPECT_EQ(weight, 1u);
  ASSERT_EQ(coordinator.evaluations().size(), 1u);
  EXPECT_TRUE(std::isnan(coordinator.evaluations()[0].value()));
  EXPECT_EQ(coordinator.evaluations()[0].loss_sum(), INFINITY);
}

TEST(ProgramReporterTest, AFencedTaskEnds) {
  FakeCoordinatorClient coordinator;
  coordinator.FailProgress({absl::AbortedError("fenced")});
  RealClock clock;
  ProgramReporter reporter(coordinator, clock, 7, NoWarning);
  reporter.Add({.step = 8});
  reporter.Finish();
  EXPECT_TRUE(absl::IsAborted(reporter.status()));
  EXPECT_TRUE(coordinator.progress().empty()) << "nothing more is said";
}

TEST(ProgramReporterTest, CollectiveCallsAreToldWhenAUserAsks) {
  FakeCoordinatorClient coordinator;
  RealClock clock;
  ProgramReporter reporter(coordinator, clock, 0, NoWarning);
  std::stop_source ends;
  v1::ReportProgressReply asks;
  asks.set_collectives_wanted(true);
  coordinator.SetProgressReply(asks);
  ASSERT_TRUE(reporter.AwaitCollectivesWanted(ends.get_token()).ok());
  v1::ReportCollectivesRequest calls;
  calls.add_calls()->set_operation("all_reduce");
  reporter.TellCollectives(calls);
  coordinator.AwaitCollectives(1);
  EXPECT_EQ(coordinator.collectives()[0].calls(0).operation(), "all_reduce");

  coordinator.SetProgressReply({});
  std::thread waits([&] {
    absl::Status status;
    // The question before may come once more.
    while (status.ok()) status = reporter.AwaitCollectivesWanted(ends.get_token());
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  });
  ends.request_stop();
  waits.join();
}

TEST(ProgramReporterTest, WhatWasToldAtTheEndIsSent) {
  FakeCoordinatorClient coordinator;
  RealClock clock;
  ProgramReporter reporter(coordinator, clock, 0, NoWarning);
  v1::ReportCollectivesRequest calls;
  calls.add_calls()->set_error("rank 1 has died");
  reporter.TellCollectives(calls);
  reporter.Finish();
  ASSERT_EQ(coordinator.collectives().size(), 1u);
}

}  // namespace
}  // namespace muster
