#include "worker/runtime/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/loss_scale.h"
#include "common/mesh/mesh.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/metrics.pb.h"
#include "proto/schema.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "worker/nn/loss_scaler.h"
#include "worker/nn/loss_scaling.h"
#include "worker/nn/model.h"
#include "worker/runtime/training/noise_scale.h"
#include "worker/runtime/training/trainer_fixture_for_testing.h"
#include "worker/strategy/local_strategy_for_testing.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST_F(TrainerTest, PerceptronLearnsClusters) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(20);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  auto evaluations = coordinator_.evaluations();
  ASSERT_EQ(evaluations.size(), 2);
  EXPECT_EQ(evaluations[0].clock(), 20);
  EXPECT_EQ(evaluations[1].clock(), 40);
  EXPECT_EQ(evaluations[1].metric(), "accuracy");
  EXPECT_EQ(evaluations[1].examples(), 120);
  // A third is guessing.
  EXPECT_GT(evaluations[1].correct(), 96u);
  EXPECT_LT(evaluations[1].loss_sum(), evaluations[0].loss_sum());
}

TEST_F(TrainerTest, ReportsAddUpToTheWholeRun) {
  ASSERT_EQ(Run(MlpSpec()), absl::OkStatus());
  uint64_t steps = 0, examples = 0, clock = 0;
  double evaluating = 0, keeping = 0;
  std::map<std::string, uint64_t> values;
  for (const auto& report : coordinator_.progress()) {
    for (const v1::ReportedSeries& series : report.series()) {
      for (const v1::SeriesPoint& point : series.points()) values[series.name()] += point.values();
    }
    steps += report.steps();
    examples += report.examples();
    evaluating += report.evaluation_seconds();
    keeping += report.checkpoint_seconds();
    EXPECT_EQ(report.redone_steps(), 0);
    // The last one may tell the loss alone.
    EXPECT_GE(report.clock(), clock);
    clock = report.clock();
    EXPECT_GE(report.training_seconds(), 0);
    EXPECT_NEAR(report.compute_seconds() + report.exposed_communication_seconds() +
                    report.waiting_seconds(),
                report.training_seconds(), 1e-9);
  }
  EXPECT_EQ(steps, 40);
  EXPECT_EQ(examples, 40 * 32);
  EXPECT_EQ(clock, 40);
  EXPECT_GT(evaluating, 0);
  EXPECT_GT(keeping, 0);
  EXPECT_THAT(values, ElementsAre(Pair("train/learning_rate", 40), Pair("train/loss", 40)));
}

// The results of a step that the task made in an earlier round, too, count once.
TEST_F(TrainerTest, AStepThatIsRepeatedForOthersIsReportedOnce) {
  options_.reported_clock = 6;
  ASSERT_EQ(Run(MlpSpec(), /*start=*/5), absl::OkStatus());
  uint64_t steps = 0, examples = 0, values = 0, again = 0;
  double seconds_again = 0;
  for (const v1::ReportProgressRequest& report : coordinator_.progress()) {
    steps += report.steps();
    again += report.redone_steps();
    seconds_again += report.redone_seconds();
    examples += report.examples();
    for (const v1::ReportedSeries& series : report.series()) {
      if (series.name() != "train/loss") continue;
      for (const v1::SeriesPoint& point : series.points()) {
        EXPECT_GT(point.first_step(), 6);
        values += point.values();
      }
    }
  }
  EXPECT_EQ(steps, 34);
  EXPECT_EQ(again, 1);
  EXPECT_GT(seconds_again, 0);
  EXPECT_EQ(examples, 34 * 32);
  EXPECT_EQ(values, 34);
}

// Returns the values of one step each that the series has, by step.
std::map<uint64_t, double> ValuesOf(const FakeCoordinatorClient& coordinator,
                                    const std::string& name) {
  std::map<uint64_t, double> values;
  for (const v1::ReportProgressRequest& report : coordinator.progress()) {
    for (const v1::ReportedSeries& series : report.series()) {
      if (series.name() != name) continue;
      for (const v1::SeriesPoint& point : series.points()) values[point.last_step()] = point.last();
    }
  }
  return values;
}

// The first micro-batch of four has the examples of a job's first step whose batch is as large.
TEST_F(TrainerTest, ASlotThatIsLeftOutDropsItsExamplesAndTakesPartInWhatIsBetween) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(8);
  spec.mutable_checkpoint()->set_every_steps(5);
  // Clocks 4 to 10 go on without it, and clock 20 alone.
  left_out_ = [](uint64_t clock) -> absl::optional<uint64_t> {
    if (clock == 4) return 11;
    if (clock == 20) return 21;
    return absl::nullopt;
  };
  ASSERT_EQ(Run(spec), absl::OkStatus());
  uint64_t steps = 0, examples = 0, dropped = 0, clock = 0;
  for (const auto& report : coordinator_.progress()) {
    steps += report.steps();
    examples += report.examples();
    dropped += report.dropped_examples();
    clock = std::max<uint64_t>(clock, report.clock());
  }
  EXPECT_EQ(clock, 40);
  EXPECT_EQ(steps, 34) << "clocks 5 to 10 were not trained on";
  EXPECT_EQ(dropped, 8 * spec.batch_size()) << "of clocks that it never computed, too";
  EXPECT_EQ(examples, 32 * spec.batch_size());
  EXPECT_THAT(EvaluatedClocks(), ElementsAre(8, 16, 24, 32, 40));
  EXPECT_THAT(strategy_->cuts(), ElementsAre(5, 10, 15, 20, 25, 30, 35, 40));
  EXPECT_THAT(strategy_->rate_factors(), testing::SizeIs(34));
}

TEST_F(TrainerTest, TellsTheNoiseScaleOfItsGradients) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_stop()->set_steps(21);
  spec.mutable_clipping()->set_measure_norm(true);
  spec.set_micro_batches(4);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  const std::map<uint64_t, double> whole = ValuesOf(coordinator_, "train/gradient_norm");
  const std::map<uint64_t, double> scales = ValuesOf(coordinator_, "train/noise_scale");
  ASSERT_EQ(whole.count(1), 1);
  ASSERT_EQ(scales.count(1), 1);
  EXPECT_EQ(scales.count(2), 0) << "not measured";
  spec.set_batch_size(8);
  spec.clear_micro_batches();
  const size_t before = coordinator_.progress().size();
  ASSERT_EQ(Run(spec), absl::OkStatus());
  double part = 0;
  const std::vector<v1::ReportProgressRequest> reports = coordinator_.progress();
  for (size_t i = before; i < reports.size(); ++i) {
    for (const v1::ReportedSeries& series : reports[i].series()) {
      EXPECT_NE(series.name(), "train/noise_scale") << "a part is the whole";
      if (series.name() != "train/gradient_norm") continue;
      for (const v1::SeriesPoint& point : series.points()) {
        if (point.last_step() == 1) part = point.last();
      }
    }
  }
  NoiseScale expected;
  const double norm = whole.at(1);
  expected.Add({.squared_norm = part * part, .examples = 8},
               {.squared_norm = norm * norm, .examples = 32});
  ASSERT_TRUE(expected.examples().has_value());
  EXPECT_NEAR(scales.at(1), *expected.examples(), 1e-4 * *expected.examples());
}

TEST_F(TrainerTest, SendsTheLastUnitsGradientsFirst) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_stop()->set_steps(1);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  std::vector<int> expected;
  for (int unit = job_->model->description().units - 1; unit >= 0; --unit) {
    expected.push_back(unit);
  }
  EXPECT_EQ(strategy_->sent_units(), expected);
}

TEST_F(TrainerTest, MicroBatchesMakeUpOneStep) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_stop()->set_steps(5);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  const std::unique_ptr<LocalStrategy> reference = std::move(local_);
  const ParameterSpans whole = reference->state().parameters();
  double loss = 0;
  for (const auto& report : coordinator_.progress()) loss += report.loss_sum();

  spec.set_micro_batches(3);
  const size_t told = coordinator_.progress().size();
  ASSERT_EQ(Run(spec), absl::OkStatus());
  double loss_in_parts = 0;
  uint64_t examples = 0;
  const auto progress = coordinator_.progress();
  for (size_t i = told; i < progress.size(); ++i) {
    loss_in_parts += progress[i].loss_sum();
    examples += progress[i].examples();
  }
  EXPECT_EQ(examples, 5 * 32);
  EXPECT_NEAR(loss_in_parts, loss, 1e-4 * loss);
  ASSERT_EQ(strategy_->positions().size(), 15);
  for (size_t i = 0; i < 15; i += 3) {
    EXPECT_EQ(strategy_->micro_batches()[i], 10);
    EXPECT_EQ(strategy_->micro_batches()[i + 2], 11);
    EXPECT_EQ(strategy_->positions()[i], SeriesPosition::kMoreFollow);
    EXPECT_EQ(strategy_->positions()[i + 1], SeriesPosition::kMoreFollow);
    EXPECT_EQ(strategy_->positions()[i + 2], SeriesPosition::kLast);
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    for (size_t j = 0; j < whole[i].size(); ++j) {
      ASSERT_NEAR(local_->state().parameters()[i][j], whole[i][j], 1e-5);
    }
  }
}

TEST_F(TrainerTest, ARankOfASmallerWorldTakesMoreMicroBatchesAndItsPlace) {
  v1::JobSpec spec = MlpSpec();
  spec.set_workers(2);
  spec.mutable_stop()->set_steps(2);
  options_.slot = 1;
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(strategy_->micro_batches(), ElementsAre(16, 16, 16, 16));
  EXPECT_EQ(coordinator_.checkpoints().size(), 1);
  EXPECT_EQ(coordinator_.evaluations().at(0).examples(), 120);
}

// Two of three ranks are left, and 7 examples in micro-batches of 3: the second rank needs two of
// them, and so the first one runs one more over no examples.
TEST_F(TrainerTest, ARankWithLessToDoRunsAsManyMicroBatches) {
  v1::JobSpec spec = MlpSpec();
  spec.set_workers(3);
  spec.set_batch_size(7);
  spec.mutable_stop()->set_steps(2);
  options_.mesh = Mesh::FromSpec({}, 2).value();
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(strategy_->micro_batches(), ElementsAre(3, 0, 3, 0));
  EXPECT_THAT(strategy_->positions(),
              ElementsAre(SeriesPosition::kMoreFollow, SeriesPosition::kLast,
                          SeriesPosition::kMoreFollow, SeriesPosition::kLast));
  options_.rank = 1;
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(strategy_->micro_batches(), ElementsAre(2, 2, 2, 2));
}

TEST_F(TrainerTest, RanksOfOneDataRankTakeItsShare) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_stop()->set_steps(2);
  // Trains as a rank, and returns the weights. The first tensor rank alone reports results.
  const auto train = [&](uint32_t workers, uint32_t tensor, int rank) {
    spec.set_workers(workers);
    spec.mutable_parallelism()->set_tensor(tensor);
    options_.mesh = Mesh::FromSpec(spec.parallelism(), static_cast<int>(workers)).value();
    options_.rank = rank;
    const size_t reports = coordinator_.progress().size();
    EXPECT_EQ(Run(spec), absl::OkStatus());
    EXPECT_THAT(strategy_->micro_batches(), ElementsAre(16, 16));
    const bool first = rank % tensor == 0;
    EXPECT_EQ(coordinator_.evaluations().back().examples(), first ? 60 : 0);
    EXPECT_EQ(coordinator_.evaluations().back().loss_sum() > 0, first);
    uint64_t examples = 0, steps = 0;
    for (size_t i = reports; i < coordinator_.progress().size(); ++i) {
      examples += coordinator_.progress()[i].examples();
      steps += coordinator_.progress()[i].steps();
    }
    EXPECT_EQ(examples, first ? 32 : 0);
    EXPECT_EQ(steps, 2);
    const absl::Span<const float> weights = strategy_->parameters().values[0];
    return std::vector<float>(weights.begin(), weights.end());
  };
  const std::vector<float> expected = train(2, 1, 1);
  EXPECT_EQ(train(4, 2, 2), expected);
  EXPECT_EQ(train(4, 2, 3), expected);
}

TEST_F(TrainerTest, LeavesItsRoundWhenTheCoordinatorWantsAMeeting) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_stop()->set_steps(1000000);
  options_.round = 4;
  v1::ReportProgressReply reply;
  reply.set_meet_after_round(4);
  coordinator_.SetProgressReply(reply);
  EXPECT_EQ(Run(spec).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(coordinator_status_.code(), absl::StatusCode::kCancelled);
  // What was trained until then is told.
  EXPECT_GT(coordinator_.progress().back().clock(), 0);
}

TEST_F(TrainerTest, LeavesAJobWithoutRoundsWhenTheCoordinatorSaysSo) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_stop()->set_steps(1000000);
  v1::ReportProgressReply reply;
  reply.set_meet_after_round(1);
  coordinator_.SetProgressReply(reply);
  EXPECT_EQ(Run(spec).code(), absl::StatusCode::kCancelled);
  EXPECT_GT(coordinator_.progress().back().clock(), 0) << "after a step";
}

TEST_F(TrainerTest, EndsAfterTheClockThatTheCoordinatorSays) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_stop()->set_steps(10);
  // Before each evaluation a task reports, and hears of its end.
  spec.mutable_evaluation()->set_every_steps(1);
  v1::ReportProgressReply reply;
  reply.set_end_after_clock(4);
  coordinator_.SetProgressReply(reply);
  EXPECT_EQ(Run(spec).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(coordinator_.progress().back().clock(), 4);
}

TEST_F(TrainerTest, AMeetingLongPastIsNoReasonToLeave) {
  options_.round = 5;
  v1::ReportProgressReply reply;
  reply.set_meet_after_round(4);
  coordinator_.SetProgressReply(reply);
  options_.reporting.interval = absl::Milliseconds(1);
  EXPECT_EQ(Run(MlpSpec()), absl::OkStatus());
}

TEST_F(TrainerTest, TellsTheCoordinatorsWordFromTheStrategys) {
  coordinator_.OnEvaluation(
      [](const v1::ReportEvaluationRequest&) { return absl::CancelledError("slot 1 was lost"); });
  EXPECT_EQ(Run(MlpSpec()).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(coordinator_status_.code(), absl::StatusCode::kCancelled);
  v1::JobSpec spec = MlpSpec();
  spec.mutable_optimizer()->set_learning_rate(1e30f);
  EXPECT_EQ(Run(spec).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(coordinator_status_, absl::OkStatus());
}

TEST_F(TrainerTest, DivergenceNamesItsStepAndIsNotKept) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_optimizer()->set_learning_rate(1e30f);
  absl::Status status = Run(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_THAT(status.message(), HasSubstr("diverged at step "));
  EXPECT_THAT(status.message(), HasSubstr("lower the learning rate"));
  EXPECT_THAT(strategy_->cuts(), IsEmpty());
  EXPECT_THAT(coordinator_.checkpoints(), IsEmpty());
}

// A transformer in f16, so small that nothing overflows by itself.
v1::JobSpec F16Spec() {
  const std::string path = testing::TempDir() + "/text";
  std::ofstream file(path);
  for (int i = 0; i < 100; ++i) file << i << " bottles of milk on the wall\n";
  return Spec(absl::StrCat(R"(
    model { transformer { layers: 1 width: 8 heads: 2 context: 8 } }
    data { sequences { path: ")",
                           path, R"(" } }
    optimizer { name: "sgd" learning_rate: 0.1 }
    compute { type: F16 }
    workers: 1
    batch_size: 4
    stop { steps: 20 }
  )"));
}

// Tensor ranks that do not divide tokens have the same loads.
TEST_F(TrainerTest, LoadsOfExpertsAreReportedOnceAndByOneTensorRank) {
  v1::JobSpec spec = F16Spec();
  spec.mutable_compute()->clear_type();
  v1::TransformerSpec& transformer = *spec.mutable_model()->mutable_transformer();
  transformer.set_no_biases(true);
  transformer.mutable_moe()->set_experts(4);
  transformer.mutable_moe()->set_top_k(2);
  options_.mesh = Mesh({.tensor = 2});
  const auto tokens = [&](int rank, uint64_t reported, uint64_t start) {
    const size_t before = coordinator_.progress().size();
    options_.rank = rank;
    options_.reported_clock = reported;
    EXPECT_EQ(Run(spec, start), absl::OkStatus());
    uint64_t sum = 0;
    const auto reports = coordinator_.progress();
    for (size_t i = before; i < reports.size(); ++i) {
      for (const uint64_t each : reports[i].expert_loads().tokens()) sum += each;
    }
    return sum;
  };
  constexpr uint64_t kOfStep = 2 * 4 * 8;
  EXPECT_EQ(tokens(/*rank=*/0, /*reported=*/0, /*start=*/0), 20 * kOfStep);
  EXPECT_EQ(tokens(0, 6, 5), 14 * kOfStep) << "step 6 is repeated for others";
  EXPECT_EQ(tokens(1, 0, 0), 0);
  spec.set_workers(2);
  spec.mutable_parallelism()->set_tensor(2);
  EXPECT_EQ(tokens(1, 0, 0), 20 * kOfStep) << "with rows of its own";
}

TEST_F(TrainerTest, StepsWhoseScaledGradientsOverflowAreLeftOut) {
  std::vector<std::string> log;
  options_.log = [&log](absl::string_view line) { log.emplace_back(line); };
  v1::JobSpec spec = F16Spec();
  spec.set_micro_batches(2);
  // The first of two micro-batches of a step is enough.
  poisons_ = 1;
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_EQ(strategy_->loss_scaler()->overflows(), 1);
  EXPECT_THAT(log, Contains(HasSubstr("gradients of step 1 overflow at a loss scale of 4096")));
  EXPECT_THAT(log, Contains("slot 0: 1 steps were left out; the loss scale is 2048"));
  EXPECT_EQ(strategy_->sent_units().size(), 20u * 2 * 3);
}

TEST_F(TrainerTest, AStepReportsTheLossScaleThatItRanWith) {
  hears_of_a_scale_ = true;
  v1::JobSpec spec = MlpSpec();
  spec.mutable_stop()->set_steps(6);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  std::vector<double> scales;
  for (const auto& report : coordinator_.progress()) {
    for (const v1::ReportedSeries& series : report.series()) {
      if (series.name() != "train/loss_scale") continue;
      for (const v1::SeriesPoint& point : series.points()) scales.push_back(point.last());
    }
  }
  EXPECT_THAT(scales, ElementsAre(64, 128, 64, 128, 64, 128));
}

TEST_F(TrainerTest, WhatOverflowsWithoutAScaleHasDiverged) {
  poisons_ = 20;
  absl::Status status = Run(F16Spec());
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  // 4096 is halved twelve times.
  EXPECT_THAT(status.message(), HasSubstr("diverged at step 13: the gradient of embedding.weight "
                                          "is not finite at a loss scale of 1;"));

  v1::JobSpec spec = F16Spec();
  spec.mutable_compute()->set_loss_scale(256);
  status = Run(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_THAT(status.message(), HasSubstr("diverged at step 1: the gradient of embedding.weight "
                                          "is not finite at a loss scale of 256 (lower "
                                          "compute.loss_scale, or leave it out)"));
}

TEST_F(TrainerTest, EndsWhenTheCoordinatorFencesIt) {
  coordinator_.FailProgress({absl::AbortedError("incarnation 1 was replaced by 2")});
  v1::JobSpec spec = MlpSpec();
  spec.mutable_stop()->set_steps(1000000);
  absl::Status status = Run(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
}

TEST_F(TrainerTest, RefusesABatchThatDoesNotFit) {
  v1::JobSpec spec = MlpSpec();
  spec.set_batch_size(481);
  EXPECT_EQ(Run(spec).code(), absl::StatusCode::kInvalidArgument);
  spec.set_batch_size(1);
  spec.set_workers(2);
  options_.mesh = Mesh::FromSpec({}, 2).value();
  EXPECT_EQ(Run(spec).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster
