#include "client/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/terminal/format.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ComparisonTest, SpreadIsMedianAndEnds) {
  const Spread odd = SpreadOf({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 3);
  EXPECT_EQ(SpreadOf({4, 1, 2, 3}).median, 2.5);
}

TEST(ComparisonTest, OrderAlternates) {
  EXPECT_THAT(OrderOfRoads(3, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(OrderOfRoads(3, 1), ElementsAre(2, 1, 0));
  EXPECT_THAT(OrderOfRoads(3, 2), ElementsAre(0, 1, 2));
}

// Two workers, of which the sums of `steps` steps each are: 10 ms a step.
v1::JobStatus Status(uint64_t steps) {
  v1::JobStatus status;
  status.mutable_spec()->set_batch_size(100);
  status.mutable_progress()->set_step(steps);
  for (int slot = 0; slot < 2; ++slot) {
    v1::TaskStatus& task = *status.add_tasks();
    task.set_slot(slot);
    task.set_steps(steps);
    task.set_training_seconds(0.010 * steps);
    task.set_compute_seconds(0.007 * steps);
    task.set_exposed_communication_seconds(0.002 * steps);
    task.set_waiting_seconds(0.001 * steps);
    task.set_bytes_pushed(1000 * steps);
    task.set_bytes_pulled(2000 * steps);
    task.set_other_bytes_sent(100 * steps);
    task.set_other_bytes_received(300 * steps);
    task.set_process_cpu_seconds(1.5);
    task.set_process_peak_bytes(1000 + slot);
    task.set_process_mapped_bytes(400 - 100 * slot);
  }
  return status;
}

TEST(ComparisonTest, FiguresLeaveTheWarmUpOut) {
  v1::JobStatus warm = Status(10);
  // Slow at first.
  for (v1::TaskStatus& task : *warm.mutable_tasks()) task.set_training_seconds(5);
  v1::JobStatus end = Status(110);
  for (v1::TaskStatus& task : *end.mutable_tasks()) task.set_training_seconds(6);
  v1::EvaluationResult& evaluation = *end.add_evaluations();
  evaluation.set_clock(110);
  evaluation.set_metric("accuracy");
  evaluation.set_value(0.9);
  evaluation.set_loss(0.3);
  evaluation.set_training_seconds(6);

  const MeasuredRun run = Figures(warm, end);
  EXPECT_EQ(run.steps, 110u);
  EXPECT_EQ(run.warmup_steps, 10u);
  EXPECT_NEAR(run.steps_per_second, 100, 1e-9);
  EXPECT_NEAR(run.examples_per_second, 10000, 1e-6);
  EXPECT_NEAR(run.compute_seconds, 0.007, 1e-12);
  EXPECT_NEAR(run.communication_seconds, 0.002, 1e-12);
  EXPECT_NEAR(run.waiting_seconds, 0.001, 1e-12);
  EXPECT_THAT(run.workers, ElementsAre(WorkerTraffic{1000, 2000}, WorkerTraffic{1000, 2000}));
  EXPECT_THAT(run.dense, ElementsAre(WorkerTraffic{900, 1700}, WorkerTraffic{900, 1700}));
  EXPECT_EQ(run.worker_cpu_seconds, 3);
  EXPECT_EQ(run.worker_peak_bytes, 1001u);
  EXPECT_EQ(run.worker_own_peak_bytes, 701);
  ASSERT_EQ(run.curve.size(), 1u);
  EXPECT_EQ(run.curve[0].examples, 11000u);
  EXPECT_EQ(run.curve[0].seconds, 6);
  EXPECT_EQ(run.metric, "accuracy");
}

TEST(ComparisonTest, AWarmUpThatLeavesTooLittleIsNotUsed) {
  const MeasuredRun run = Figures(Status(60), Status(100));
  EXPECT_EQ(run.warmup_steps, 0u);
  EXPECT_EQ(run.workers[1], (WorkerTraffic{1000, 2000}));
}

TEST(ComparisonTest, EachWorkersBytesAreThoseOfItsOwnSteps) {
  v1::JobStatus warm = Status(10);
  // Slot 1 has told of a step less, and moves half as much in each.
  const auto spoil = [](v1::TaskStatus& task, uint64_t steps) {
    task.set_steps(steps);
    task.set_bytes_sent(500 * steps);
    task.set_bytes_received(400 * steps);
    task.set_other_bytes_sent(50 * steps);
    task.set_other_bytes_received(40 * steps);
  };
  v1::JobStatus end = Status(110);
  for (v1::JobStatus* status : {&warm, &end}) {
    status->mutable_spec()->mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
    v1::TaskStatus& first = *status->mutable_tasks(0);
    first.set_bytes_sent(1000 * first.steps());
    first.set_bytes_received(900 * first.steps());
  }
  spoil(*warm.mutable_tasks(1), 9);
  spoil(*end.mutable_tasks(1), 110);
  // Which of the tasks comes first is of no account.
  warm.mutable_tasks()->SwapElements(0, 1);
  const MeasuredRun run = Figures(warm, end);
  EXPECT_THAT(run.dense, ElementsAre(WorkerTraffic{1000, 900}, WorkerTraffic{500, 400}));
  EXPECT_THAT(run.workers, ElementsAre(WorkerTraffic{1100, 1200}, WorkerTraffic{550, 440}));
}

TEST(ComparisonTest, WithoutWarmUpTheWholeRunCounts) {
  const MeasuredRun run = Figures(v1::JobStatus(), Status(100));
  EXPECT_NEAR(run.steps_per_second, 100, 1e-9);
  EXPECT_EQ(run.warmup_steps, 0u);
}

TEST(ComparisonTest, TheTableHasAColumnPerRoadAndShowsTheSpread) {
  Comparison comparison;
  for (const char* road : {"BSP", "all-reduce"}) {
    RoadResult result{.road = road};
    for (double speed : {100.0, 120.0, 110.0}) {
      MeasuredRun run;
      run.road = road;
      run.metric = "accuracy";
      run.curve.push_back({.loss = 0.5, .metric = 0.9});
      run.steps_per_second = speed;
      run.repeat = static_cast<int>(result.runs.size());
      run.workers = {{5000, 6000}, {5000, 6000}};
      run.predicted.workers = run.dense = {{4040, 4044}, {4040, 4048}};
      if (result.road == "BSP") run.predicted.server_sent = run.server_sent = {{"s0", 8080}};
      result.runs.push_back(run);
    }
    comparison.roads.push_back(result);
  }
  const auto table = ComparisonTable(comparison, TableStyle::kReport);
  EXPECT_THAT(table[0], ElementsAre("", "BSP", "all-reduce"));
  EXPECT_THAT(table[1], ElementsAre("held-out loss", "0.5000", "0.5000"));
  EXPECT_THAT(table[2], ElementsAre("held-out accuracy", "0.9000", "0.9000"));
  EXPECT_THAT(table, Contains(ElementsAre("steps/s", "110 (100 to 120)", "110 (100 to 120)")));
  EXPECT_THAT(table,
              Contains(ElementsAre("a worker sends per step", "5,000 bytes", "5,000 bytes")));
  EXPECT_THAT(table,
              Contains(ElementsAre("  of it dense gradients", "4,040 bytes", "4,040 bytes")));
  EXPECT_THAT(table, Contains(ElementsAre("  of it dense parameters",
                                          "4,046 bytes (4,044 bytes to 4,048 bytes)",
                                          "4,046 bytes (4,044 bytes to 4,048 bytes)")));
  EXPECT_THAT(table, Contains(ElementsAre("servers send per step, dense", "s0 8,080 bytes", "-")));
  EXPECT_THAT(table, Contains(ElementsAre("  predicted", "s0 8,080 bytes", "-")));
  EXPECT_THAT(table, Each(SizeIs(3)));
  EXPECT_THAT(TrafficMismatches(comparison), IsEmpty());

  // One process in one repeat is enough.
  comparison.roads[1].runs[2].dense[1].sent = 8080;
  comparison.roads[0].runs[1].server_sent["s0"] = 4040;
  const auto marked = ComparisonTable(comparison, TableStyle::kReport);
  EXPECT_THAT(marked,
              Contains(ElementsAre("  predicted", "4,040 bytes", "4,040 bytes, NOT AS PREDICTED")));
  EXPECT_THAT(marked,
              Contains(ElementsAre("  predicted", "s0 8,080 bytes, NOT AS PREDICTED", "-")));
  EXPECT_THAT(
      TrafficMismatches(comparison),
      ElementsAre(
          "BSP, run 2: s0 sends 4,040 bytes of dense parameters a step, predicted 8,080 bytes",
          "all-reduce, run 3: slot 1 sends 8,080 bytes of dense parameters a step, predicted "
          "4,040 bytes"));
}

TEST(ComparisonTest, TheBestIsNamedWithItsStepWhereItMayNotBeTheLast) {
  Comparison comparison;
  MeasuredRun run;
  run.metric = "accuracy";
  run.curve = {{.step = 20, .loss = 0.5, .metric = 0.9},
               {.step = 40, .loss = 0.6},
               {.step = 60, .loss = 0.7, .metric = 0.8}};
  MeasuredRun later = run;
  later.curve[1].metric = 0.91;
  MeasuredRun unknown = run;
  for (CurvePoint& point : unknown.curve) point.metric.reset();
  comparison.roads = {{.road = "BSP", .runs = {run, later}}, {.road = "ASP", .runs = {unknown}}};
  auto table = ComparisonTable(comparison, TableStyle::kReport);
  EXPECT_THAT(table,
              Contains(ElementsAre("best held-out accuracy", "0.9050 (0.9000 to 0.9100)", "-")));
  EXPECT_THAT(table, Contains(ElementsAre("  at step", "30 (20 to 40)", "-")));
  // Less is better.
  for (RoadResult& road : comparison.roads) {
    for (MeasuredRun& each : road.runs) each.metric = "perplexity";
  }
  table = ComparisonTable(comparison, TableStyle::kReport);
  EXPECT_THAT(table, Contains(ElementsAre("best held-out perplexity", "0.8000", "-")));
  EXPECT_THAT(table, Contains(ElementsAre("  at step", "60", "-")));
}

TEST(ComparisonTest, InATerminalFourRoadsTakeAtMost100Columns) {
  Comparison comparison;
  for (const char* road : {"BSP", "SSP 16", "ASP", "all-reduce"}) {
    RoadResult result{.road = road};
    for (double factor : {0.5, 1.0, 1.25}) {
      MeasuredRun run;
      run.metric = "bits_per_byte";
      run.curve.push_back({.loss = 10.5 * factor, .metric = 10.5 * factor});
      run.steps = 1'000'000;
      run.training_seconds = 100'000 * factor;
      run.max_staleness = factor > 1 ? 16 : 0;
      run.steps_per_second = 50'000 * factor;
      run.examples_per_second = 60'000'000 * factor;
      run.compute_seconds = run.communication_seconds = run.waiting_seconds = 0.99 * factor;
      run.workers = run.dense = run.predicted.workers = {{1e12 * factor, 1e12 * factor}};
      run.server_sent = run.predicted.server_sent = {{"server-1", 5e11}, {"server-2", 5e11}};
      run.worker_cpu_seconds = run.server_cpu_seconds = 100'000 * factor;
      result.runs.push_back(run);
    }
    comparison.roads.push_back(result);
  }
  comparison.roads[1].runs[2].dense[0].sent = 7;
  const auto table = ComparisonTable(comparison, TableStyle::kTerminal);
  for (absl::string_view line : absl::StrSplit(FormatTable(table), '\n')) {
    // Of several bytes, and one column.
    EXPECT_LE(absl::StrReplaceAll(line, {{"±", "+"}}).size(), 100u) << line;
  }
  EXPECT_THAT(table, Contains(Contains("60 M ±50%")));
  EXPECT_THAT(table, Contains(ElementsAre("time", "27h46m ±50%", "27h46m ±50%", "27h46m ±50%",
                                          "27h46m ±50%")));
  EXPECT_THAT(table, Contains(Contains("990 ms ±50%")));
  EXPECT_THAT(table, Contains(Contains("0 to 16")));
  EXPECT_THAT(table, Contains(ElementsAre("servers send per step, dense", "931.3 GiB", "931.3 GiB",
                                          "931.3 GiB", "931.3 GiB")));
  EXPECT_THAT(table, Contains(ElementsAre("  as predicted", "to the byte", "NO", "to the byte",
                                          "to the byte")));
}

// Returns a comparison of four stages with two repeats each.
Comparison Stages(double factor) {
  Comparison comparison;
  comparison.of = Comparison::Of::kStages;
  for (int stage = 0; stage < 4; ++stage) {
    RoadResult result{.road = absl::StrCat("stage ", stage)};
    for (const double repeat : {1.0, factor}) {
      MeasuredRun run;
      run.curve.push_back({.loss = 10.5 * repeat});
      run.training_loss = 11.5 * repeat;
      run.steps_per_second = (1000 - 10 * stage) * repeat;
      run.compute_seconds = run.communication_seconds = run.waiting_seconds = 0.0999 * repeat;
      run.worker_own_peak_bytes = (1000 - 100 * stage) << 20;
      run.planned_worker_own_bytes = (1001 - 100 * stage) << 20;
      run.planned_step_flops = 1.25e12;
      run.workers = run.dense = run.predicted.workers = {{1000.0 * (1 << 20), 10}};
      result.runs.push_back(run);
    }
    comparison.roads.push_back(result);
  }
  return comparison;
}

TEST(ComparisonTest, StagesStandSideBySide) {
  Comparison comparison = Stages(/*factor=*/1);
  comparison.roads[2].runs[1].dense[0].received = 11;
  const auto table = ComparisonTable(comparison, TableStyle::kTerminal);
  EXPECT_THAT(table[0], ElementsAre("", "stage 0", "stage 1", "stage 2", "stage 3"));
  EXPECT_THAT(table,
              Contains(ElementsAre("  of stage 0's", "100.0 %", "99.0 %", "98.0 %", "97.0 %")));
  EXPECT_THAT(table, Contains(ElementsAre("exposed communication", "99.9 ms", "99.9 ms", "99.9 ms",
                                          "99.9 ms")));
  EXPECT_THAT(table, Contains(ElementsAre("a step's operations", "1,250 GFLOP", "1,250 GFLOP",
                                          "1,250 GFLOP", "1,250 GFLOP")));
  EXPECT_THAT(table, Contains(ElementsAre("a worker's memory", "1000.0 MiB", "900.0 MiB",
                                          "800.0 MiB", "700.0 MiB")));
  EXPECT_THAT(table, Contains(ElementsAre("  planned", "1001.0 MiB", "901.0 MiB", "801.0 MiB",
                                          "701.0 MiB")));
  EXPECT_THAT(table, Contains(ElementsAre("  as predicted", "to the byte", "to the byte", "NO",
                                          "to the byte")));
  EXPECT_THAT(TrafficMismatches(comparison), SizeIs(1));
}

TEST(ComparisonTest, FourStagesTakeAtMost80Columns) {
  const auto table = ComparisonTable(Stages(/*factor=*/1.25), TableStyle::kTerminal);
  for (absl::string_view line : absl::StrSplit(FormatTable(table), '\n')) {
    EXPECT_LE(absl::StrReplaceAll(line, {{"±", "+"}}).size(), 80u) << line;
  }
}

// Returns a comparison of a job without its pipeline and of five schedules.
Comparison Schedules(double factor) {
  Comparison comparison;
  comparison.of = Comparison::Of::kSchedules;
  for (const char* name :
       {"no pipeline", "LAYER_WISE", "GPIPE", "ONE_F_ONE_B", "INTERLEAVED", "ZERO_BUBBLE"}) {
    RoadResult result = Stages(factor).roads[0];
    result.road = name;
    for (MeasuredRun& run : result.runs) {
      run.steps_per_second = 4.5 * run.training_loss / 11.5;
      if (comparison.roads.empty()) continue;
      run.predicted_steps_per_second = 5;
      run.bubble = 0.375;
      run.predicted_bubble = 0.125;
    }
    comparison.roads.push_back(result);
  }
  return comparison;
}

TEST(ComparisonTest, SchedulesStandBesideWhatTheirPassesPredict) {
  const auto table = ComparisonTable(Schedules(/*factor=*/1), TableStyle::kTerminal);
  EXPECT_THAT(table[0], ElementsAre("", "no pipeline", "LAYER_WISE", "GPIPE", "ONE_F_ONE_B",
                                    "INTERLEAVED", "ZERO_BUBBLE"));
  EXPECT_THAT(table, Contains(ElementsAre("steps/s", "4.5", "4.5", "4.5", "4.5", "4.5", "4.5")));
  EXPECT_THAT(table, Contains(ElementsAre("  predicted", "-", "5", "5", "5", "5", "5")));
  EXPECT_THAT(table, Contains(ElementsAre("  of predicted", "-", "90.0 %", "90.0 %", "90.0 %",
                                          "90.0 %", "90.0 %")));
  EXPECT_THAT(table, Contains(ElementsAre("bubble", "-", "37.5 %", "37.5 %", "37.5 %", "37.5 %",
                                          "37.5 %")));
  EXPECT_THAT(table, Contains(ElementsAre("  predicted", "-", "12.5 %", "12.5 %", "12.5 %",
                                          "12.5 %", "12.5 %")));
}

TEST(ComparisonTest, SixSchedulesTakeAtMost106Columns) {
  const auto table = ComparisonTable(Schedules(/*factor=*/1.25), TableStyle::kTerminal);
  for (absl::string_view line : absl::StrSplit(FormatTable(table), '\n')) {
    EXPECT_LE(absl::StrReplaceAll(line, {{"±", "+"}}).size(), 106u) << line;
  }
}

TEST(ComparisonTest, RowsThatBelongTogetherStandTogether) {
  Comparison comparison;
  MeasuredRun run;
  run.metric = "accuracy";
  run.curve.push_back({.loss = 0.5, .metric = 0.9});
  comparison.roads.push_back({.road = "BSP", .runs = {run}});
  std::vector<std::string> names;
  for (const auto& row : ComparisonTable(comparison, TableStyle::kReport)) names.push_back(row[0]);
  EXPECT_THAT(
      names, ElementsAre("", "held-out loss", "held-out accuracy", "steps", "  left out as warm-up",
                         "time", "mean staleness", "largest staleness", "steps/s", "examples/s",
                         "step: operations", "step: compute", "step: exposed communication",
                         "step: waiting for data", "a worker sends per step",
                         "  of it dense gradients", "  predicted", "a worker receives per step",
                         "  of it dense parameters", "  predicted", "servers send per step, dense",
                         "  predicted", "CPU time of the workers", "CPU time of the servers",
                         "largest worker's peak memory", "the servers' peak memory"));
}

}  // namespace
}  // namespace muster
