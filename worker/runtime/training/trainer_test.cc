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
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/metrics.pb.h"
#include "proto/schema.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "worker/nn/loss_scaler.h"
#include "worker/nn/loss_scaling.h"
#include "worker/nn/model.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"
#include "worker/runtime/training/noise_scale.h"
#include "worker/runtime/training/step_executor.h"
#include "worker/runtime/training/trainer_doubles_for_testing.h"
#include "worker/strategy/local_strategy_for_testing.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

v1::JobSpec Spec(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

// An MLP on Gaussian clusters: learns within a few dozen steps.
v1::JobSpec MlpSpec() {
  return Spec(R"pb(
    model { mlp { hidden: 16 classes: 3 } }
    data {
      synthetic_classification { examples: 600 features: 8 classes: 3 seed: 5 }
      holdout: 0.2
    }
    optimizer { name: "sgd" learning_rate: 0.2 }
    workers: 1
    batch_size: 32
    stop { steps: 40 }
    seed: 7
  )pb");
}

class TrainerTest : public ::testing::Test {
 protected:
  absl::Status Run(const v1::JobSpec& spec, uint64_t start = 0) {
    absl::StatusOr<PreparedJob> job = PrepareJob(spec);
    if (!job.ok()) return job.status();
    job_ = std::make_unique<PreparedJob>(*std::move(job));
    local_ =
        LocalStrategy::Create(*job_->schema, LossScaling(spec.compute(), {.log = options_.log}))
            .value();
    strategy_ = std::make_unique<CountingStrategy>(*local_, start);
    if (hears_of_a_scale_) strategy_->HearOfAGroupsScale();
    // How many commits the coordinator has seen by then.
    strategy_->OnCommitted([this] { committed_.push_back(coordinator_.checkpoints().size()); });
    const PoisonedModel model(*job_->model, poisons_);
    StepExecutor engine(spec, model, *strategy_);
    absl::StatusOr<std::unique_ptr<Trainer>> trainer =
        Trainer::Create(spec, options_, *job_, {*strategy_, engine}, coordinator_, clock_);
    if (!trainer.ok()) return trainer.status();
    const absl::Status status = (*trainer)->Run();
    coordinator_status_ = (*trainer)->coordinator_status();
    return status;
  }

  std::vector<uint64_t> EvaluatedClocks() const {
    std::vector<uint64_t> clocks;
    for (const auto& share : coordinator_.evaluations()) clocks.push_back(share.clock());
    return clocks;
  }

  TrainerOptions options_;
  RealClock clock_;
  FakeCoordinatorClient coordinator_;
  std::unique_ptr<PreparedJob> job_;
  std::unique_ptr<LocalStrategy> local_;
  std::unique_ptr<CountingStrategy> strategy_;
  std::vector<size_t> committed_;
  int poisons_ = 0;
  bool hears_of_a_scale_ = false;
  absl::Status coordinator_status_;
};

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

TEST_F(TrainerTest, ChecksPointsAtIntervalsAndAtTheEnd) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_checkpoint()->set_every_steps(15);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(15, 30, 40));
  EXPECT_THAT(committed_, ElementsAre(1, 2, 3)) << "told before the coordinator had answered";
  auto checkpoints = coordinator_.checkpoints();
  ASSERT_EQ(checkpoints.size(), 3);
  EXPECT_EQ(checkpoints[2].clock(), 40);
  ASSERT_EQ(checkpoints[2].files_size(), 2);
  EXPECT_EQ(checkpoints[2].files(1).partition(), 1);
  EXPECT_EQ(checkpoints[2].files(1).path(), "f1");
  EXPECT_EQ(checkpoints[2].files(1).bytes(), 20);
  EXPECT_EQ(checkpoints[2].files(1).checksum(), 21);
  v1::TablesSchema schema;
  ASSERT_TRUE(schema.ParseFromString(checkpoints[2].schema()));
  EXPECT_EQ(schema.total_steps(), 40);
  EXPECT_EQ(checkpoints[2].rank_files(), 0);
}

TEST_F(TrainerTest, TheAnswerToAnEvaluationMayAskForACheckpoint) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_checkpoint()->set_every_steps(15);
  spec.mutable_evaluation()->set_every_steps(10);
  std::vector<size_t> committed;
  coordinator_.OnEvaluation([&](const v1::ReportEvaluationRequest& share) {
    committed.push_back(committed_.size());
    v1::ReportEvaluationReply reply;
    reply.set_keep(share.clock() != 20);
    return reply;
  });
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(EvaluatedClocks(), ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(strategy_->cuts(), ElementsAre(10, 15, 30, 40)) << "one at 30, which is due, too";
  EXPECT_THAT(committed, ElementsAre(0, 2, 2, 4)) << "the last one alone comes before";
}

TEST_F(TrainerTest, ACheckpointThatIsThereIsNotTakenAgainForItsEvaluation) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(10);
  options_.checkpoint_clock = 20;
  coordinator_.OnEvaluation([](const v1::ReportEvaluationRequest&) {
    v1::ReportEvaluationReply reply;
    reply.set_keep(true);
    return reply;
  });
  ASSERT_EQ(Run(spec, 20), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(30, 40));
}

// Returns the answer that at each of these clocks the rate's factor was decided.
v1::AdjustReply Decided(const std::vector<std::pair<uint64_t, double>>& factors) {
  v1::AdjustReply reply;
  for (const auto& [clock, factor] : factors) {
    v1::Adjustment& added = *reply.add_adjustments();
    added.set_clock(clock);
    added.set_rate_factor(factor);
  }
  return reply;
}

// A job whose batch of 32 is decided to be 64 from step 10 on, and the rate with it.
TEST_F(TrainerTest, BatchesGrowAsDecided) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_adaptive_batch()->set_max_batch_size(64);
  spec.mutable_adaptive_batch()->set_every_steps(10);
  spec.mutable_clipping()->set_measure_norm(true);
  spec.set_micro_batches(4);
  spec.mutable_schedule()->set_scaling("linear");
  spec.mutable_schedule()->set_base_batch_size(16);
  v1::AdjustReply grown = Decided({{10, 1}});
  grown.mutable_adjustments(0)->set_batch_size(64);
  coordinator_.OnAdjust(
      [&](const v1::AdjustRequest&) -> absl::StatusOr<v1::AdjustReply> { return grown; });
  const auto examples_from = [&](size_t report) {
    uint64_t examples = 0;
    const std::vector<v1::ReportProgressRequest> reports = coordinator_.progress();
    for (; report < reports.size(); ++report) examples += reports[report].examples();
    return examples;
  };
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_EQ(examples_from(0), 10 * 32 + 30 * 64);
  ASSERT_EQ(coordinator_.adjusts().size(), 3);
  EXPECT_EQ(coordinator_.adjusts()[0].clock(), 10);
  EXPECT_TRUE(coordinator_.adjusts()[0].has_noise_scale());
  const std::vector<double> factors = strategy_->rate_factors();
  ASSERT_EQ(factors.size(), 40);
  for (size_t clock = 0; clock < 40; ++clock) EXPECT_EQ(factors[clock], clock < 10 ? 1 : 2);
  // A task that begins later was told when it met the others.
  options_.adjustments = Adjustments(grown.adjustments());
  const size_t before = coordinator_.progress().size();
  ASSERT_EQ(Run(spec, /*start=*/25), absl::OkStatus());
  EXPECT_EQ(examples_from(before), 15 * 64);
}

TEST_F(TrainerTest, GoesOnWithWhatIsDecidedAfterAnEvaluation) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(10);
  spec.mutable_schedule()->mutable_plateau();
  options_.adjustments = Adjustments(Decided({{3, 0.5}}).adjustments());
  coordinator_.OnAdjust([](const v1::AdjustRequest& request) -> absl::StatusOr<v1::AdjustReply> {
    return request.clock() < 20 ? Decided({{3, 0.5}}) : Decided({{3, 0.5}, {20, 0.25}});
  });
  ASSERT_EQ(Run(spec), absl::OkStatus());
  std::vector<uint64_t> asked;
  for (const v1::AdjustRequest& request : coordinator_.adjusts()) asked.push_back(request.clock());
  EXPECT_THAT(asked, ElementsAre(10, 20, 30)) << "after the last step there is nothing to decide";
  const std::vector<double>& factors = strategy_->rate_factors();
  ASSERT_EQ(factors.size(), 40);
  for (size_t clock = 0; clock < 40; ++clock) {
    EXPECT_EQ(factors[clock], clock < 3 ? 1 : clock < 20 ? 0.5 : 0.25) << clock;
  }
  double least = 1;
  for (const v1::ReportProgressRequest& report : coordinator_.progress()) {
    for (const v1::ReportedSeries& series : report.series()) {
      if (series.name() != "train/learning_rate") continue;
      for (const v1::SeriesPoint& point : series.points()) least = std::min(least, point.last());
    }
  }
  EXPECT_FLOAT_EQ(least, 0.05);
}

TEST_F(TrainerTest, JobsWithNothingToDecideDoNotAsk) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(10);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(coordinator_.adjusts(), IsEmpty());
}

TEST_F(TrainerTest, EndsItsRoundIfTheOthersMeetBeforeADecision) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(10);
  spec.mutable_schedule()->mutable_plateau();
  coordinator_.OnAdjust([](const v1::AdjustRequest&) { return absl::CancelledError("meet"); });
  EXPECT_EQ(Run(spec).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(absl::IsCancelled(coordinator_status_));
}

TEST_F(TrainerTest, OfShardGroupsEachRankWritesOneFile) {
  v1::JobSpec spec = MlpSpec();
  spec.set_workers(4);
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_parallelism()->mutable_zero()->set_stage(2);
  spec.mutable_parallelism()->mutable_zero()->set_shard(2);
  options_.mesh = Mesh::FromSpec({}, 4).value();
  ASSERT_EQ(Run(spec), absl::OkStatus());
  ASSERT_EQ(coordinator_.checkpoints().size(), 1);
  EXPECT_EQ(coordinator_.checkpoints()[0].rank_files(), 4);
}

TEST_F(TrainerTest, OnlyRankZeroCommits) {
  v1::JobSpec spec = MlpSpec();
  spec.set_workers(2);
  options_.slot = 1;
  options_.mesh = Mesh::FromSpec({}, 2).value();
  options_.rank = 1;
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(40));
  EXPECT_THAT(committed_, ElementsAre(0));
  EXPECT_THAT(coordinator_.checkpoints(), IsEmpty());
}

TEST_F(TrainerTest, ASlotTakenOverRepeatsWhatIsDueAtItsClock) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_checkpoint()->set_every_steps(10);
  spec.mutable_evaluation()->set_every_steps(10);
  ASSERT_EQ(Run(spec, 20), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(20, 30, 40));
  EXPECT_THAT(EvaluatedClocks(), ElementsAre(20, 30, 40));
}

TEST_F(TrainerTest, ARestoredCheckpointIsNotWrittenAgain) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_checkpoint()->set_every_steps(10);
  options_.checkpoint_clock = 20;
  ASSERT_EQ(Run(spec, 20), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(30, 40));
}

TEST_F(TrainerTest, NothingIsWrittenUpToTheLastCheckpointThatThereIs) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_checkpoint()->set_every_steps(10);
  options_.checkpoint_clock = 40;
  ASSERT_EQ(Run(spec, 20), absl::OkStatus());
  EXPECT_THAT(strategy_->cuts(), IsEmpty());
}

TEST_F(TrainerTest, ReachingTheTargetStopsAndKeepsTheResult) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(10);
  coordinator_.OnEvaluation([](const v1::ReportEvaluationRequest& share) {
    v1::ReportEvaluationReply reply;
    reply.set_stop(share.clock() >= 20);
    return reply;
  });
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(EvaluatedClocks(), ElementsAre(10, 20));
  EXPECT_THAT(strategy_->cuts(), ElementsAre(20));
}

TEST_F(TrainerTest, TheWeightsAreCommittedBeforeTheLastEvaluation) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(20);
  std::vector<size_t> committed;
  coordinator_.OnEvaluation(
      [&](const v1::ReportEvaluationRequest& share) -> absl::StatusOr<v1::ReportEvaluationReply> {
        committed.push_back(committed_.size());
        if (share.clock() == 40) return absl::InvalidArgumentError("the metric cannot be computed");
        return v1::ReportEvaluationReply();
      });
  EXPECT_EQ(Run(spec).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(committed, ElementsAre(0, 1));
  EXPECT_THAT(strategy_->cuts(), ElementsAre(40));
}

TEST_F(TrainerTest, AJobThatOnlyEvaluatesKeepsNothing) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_data()->set_holdout(1);
  spec.clear_stop();
  spec.mutable_stop()->set_evaluate_only(true);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(EvaluatedClocks(), ElementsAre(0));
  EXPECT_EQ(coordinator_.evaluations()[0].examples(), 600);
  EXPECT_THAT(strategy_->cuts(), IsEmpty());
  // What the process has used.
  for (const v1::ReportProgressRequest& report : coordinator_.progress()) {
    EXPECT_EQ(report.steps(), 0);
  }
}

TEST_F(TrainerTest, WithoutHeldOutDataNothingIsEvaluated) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_data()->set_holdout(0);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(EvaluatedClocks(), IsEmpty());
  EXPECT_THAT(strategy_->cuts(), ElementsAre(40));
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
