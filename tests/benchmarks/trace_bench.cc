// What recording a trace costs a task: events of a training step, the time of one event, and steps
// with recording on beside steps with recording off, which take turns.
//
//   trace_bench [--quick] [--json FILE]
//
// In one process, without servers and other ranks: events of pulls, pushes and collective calls,
// which a task on a cluster records too, come on top of the number here, not of the time of one.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/daemon/parse_flags.h"
#include "common/trace/trace_recorder.h"
#include "common/trace/trace_scope.h"
#include "tests/benchmarks/harness/record.h"
#include "tests/benchmarks/train_case.h"
#include "tests/benchmarks/train_stepper.h"

namespace muster {
namespace {

constexpr int kBatches = 4;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of one event, by batches.
std::vector<double> EventSeconds(int batches) {
  constexpr int kEvents = 20'000;
  TraceRecorder recorder;
  recorder.StartNow("bench", {.first = 0, .end = 1});
  const TraceBinding bound(&recorder, TraceTrack::kTrainer);
  const TraceScope step(ActionKind::kTakeClose, 0, 0);
  std::vector<double> seconds;
  std::vector<TraceEvent> events;
  for (int batch = 0; batch < batches; ++batch) {
    const double start = Now();
    for (int i = 0; i < kEvents; ++i) const TraceScope scope(ActionKind::kForward, 3);
    seconds.push_back((Now() - start) / kEvents);
    events.clear();
    recorder.Take(TraceRecorder::kEvents, events);
  }
  return seconds;
}

struct Steps {
  std::vector<double> off, on;
  double events = 0;
};

absl::Status Measure(const TrainCase& one, double seconds, Steps& steps) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<TrainStepper> stepper,
                          TrainStepper::Create(one.spec, one.data, RandomBatches(one, kBatches)));
  TraceRecorder recorder;
  const TraceBinding bound(&recorder, TraceTrack::kTrainer);
  const double end = Now() + seconds;
  uint64_t events = 0;
  // The first pair warms caches and pages.
  for (uint64_t step = 0; step < 4 || Now() < end; ++step) {
    const bool on = step % 2 == 1;
    if (on) recorder.Start("bench", {.first = step, .end = step + 1});
    const double start = Now();
    {
      const TraceStep traced(step);
      MUSTER_RETURN_IF_ERROR(stepper->Step());
    }
    const double took = Now() - start;
    if (step < 2) continue;
    (on ? steps.on : steps.off).push_back(took);
    if (!on) continue;
    std::vector<TraceEvent> taken;
    recorder.Take(TraceRecorder::kEvents, taken);
    events += taken.size();
  }
  steps.events = static_cast<double>(events) / static_cast<double>(steps.on.size());
  return absl::OkStatus();
}

void Add(const TrainCase& one, const std::string& metric, const std::string& unit,
         std::vector<double> samples, std::vector<BenchRecord>& records) {
  BenchRecord record;
  record.bench = "trace";
  record.parameters = {{"model", one.name}, {"type", one.type}};
  record.metric = metric;
  record.unit = unit;
  record.samples = std::move(samples);
  records.push_back(std::move(record));
}

absl::Status Run(bool quick, std::vector<BenchRecord>& records) {
  const double event = Median(EventSeconds(quick ? 20 : 100));
  std::cout << absl::StrFormat("one event: %.0f ns\n\n", event * 1e9)
            << "model     type  events/step  step off ms  step on ms  on/off  events x cost\n";
  for (const TrainCase& one : TrainCases()) {
    if (quick && one.name == "gpt2-124m") continue;
    Steps steps;
    MUSTER_RETURN_IF_ERROR(Measure(one, quick ? 2 : 20, steps));
    const double off = Median(steps.off), on = Median(steps.on);
    const double share = steps.events * event / off;
    std::cout << absl::StrFormat("%-9s %-5s %11.0f %12.3f %11.3f %7.4f %13.4f%%\n", one.name,
                                 one.type, steps.events, off * 1e3, on * 1e3, on / off,
                                 share * 100);
    Add(one, "events of a step", "1", {steps.events}, records);
    Add(one, "step with recording off", "s", steps.off, records);
    Add(one, "step with recording on", "s", steps.on, records);
    Add(one, "events times cost", "of a step", {share}, records);
  }
  return absl::OkStatus();
}

int Main(bool quick, const std::string& json) {
  std::vector<BenchRecord> records;
  absl::Status status = Run(quick, records);
  if (status.ok() && !json.empty()) status = WriteRecords(json, records);
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "trace_bench: " << status.message() << "\n";
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  CLI::App app("What recording a trace costs a task.");
  bool quick = false;
  std::string json;
  app.add_flag("--quick", quick, "Two seconds a model rather than twenty, and no large one.");
  app.add_option("--json", json, "File to write the results to, as an array of records.");
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  return muster::Main(quick, json);
}
