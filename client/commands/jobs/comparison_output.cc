#include "client/commands/jobs/comparison_output.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/terminal/format.h"
#include "client/terminal/interrupt.h"
#include "client/terminal/progress_display.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/text/dump_json.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Returns the workers' traffic by slot.
nlohmann::ordered_json ToJson(const std::vector<WorkerTraffic>& workers) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const WorkerTraffic& worker : workers) {
    json.push_back({{"sent", worker.sent}, {"received", worker.received}});
  }
  return json;
}

nlohmann::ordered_json ToJson(const MeasuredRun& run) {
  nlohmann::ordered_json json = {
      {"repeat", run.repeat},
      {"steps", run.steps},
      {"warmup_steps", run.warmup_steps},
      {"training_seconds", run.training_seconds},
      {"mean_staleness", run.mean_staleness},
      {"max_staleness", run.max_staleness},
      {"steps_per_second", run.steps_per_second},
      {"examples_per_second", run.examples_per_second},
      {"predicted_steps_per_second", run.predicted_steps_per_second},
      {"bubble", run.bubble},
      {"predicted_bubble", run.predicted_bubble},
      {"planned_operations_per_step", run.planned_step_flops},
      {"compute_seconds_per_step", run.compute_seconds},
      {"exposed_communication_seconds_per_step", run.communication_seconds},
      {"waiting_for_data_seconds_per_step", run.waiting_seconds},
      {"bytes_sent_per_step_and_worker", MeanOf(run.workers).sent},
      {"bytes_received_per_step_and_worker", MeanOf(run.workers).received},
      {"dense_bytes_sent_per_step_and_worker", MeanOf(run.dense).sent},
      {"dense_bytes_received_per_step_and_worker", MeanOf(run.dense).received},
      {"predicted_dense_bytes_sent", MeanOf(run.predicted.workers).sent},
      {"predicted_dense_bytes_received", MeanOf(run.predicted.workers).received},
      {"bytes_per_step_by_worker", ToJson(run.workers)},
      {"dense_bytes_per_step_by_worker", ToJson(run.dense)},
      {"predicted_dense_bytes_by_worker", ToJson(run.predicted.workers)},
      {"dense_bytes_sent_by_servers", run.server_sent},
      {"predicted_dense_bytes_sent_by_servers", run.predicted.server_sent},
      {"worker_cpu_seconds", run.worker_cpu_seconds},
      {"server_cpu_seconds", run.server_cpu_seconds},
      {"training_loss", run.training_loss},
      {"largest_worker_peak_bytes", run.worker_peak_bytes},
      {"largest_worker_own_peak_bytes", run.worker_own_peak_bytes},
      {"planned_worker_own_bytes", run.planned_worker_own_bytes},
      {"servers_peak_bytes", run.server_peak_bytes},
      {"metric", run.metric},
      {"curve", nlohmann::ordered_json::array()}};
  for (const CurvePoint& point : run.curve) {
    nlohmann::ordered_json metric;
    if (point.metric.has_value()) metric = *point.metric;
    json["curve"].push_back({{"step", point.step},
                             {"examples", point.examples},
                             {"seconds", point.seconds},
                             {"loss", point.loss},
                             {"metric", metric}});
  }
  return json;
}

// Every run's figures as numbers; medians are the reader's to take.
nlohmann::ordered_json ToJson(const Comparison& comparison) {
  const char* const one = comparison.of == Comparison::Of::kRoads    ? "road"
                          : comparison.of == Comparison::Of::kStages ? "stage"
                                                                     : "schedule";
  const std::string list = absl::StrCat(one, "s");
  nlohmann::ordered_json json = {{"job", comparison.job},
                                 {"workers", comparison.workers},
                                 {"servers", comparison.servers},
                                 {"processors", comparison.processors},
                                 {"batch_size", comparison.batch_size},
                                 {"left_out", comparison.left_out},
                                 {"not_as_predicted", TrafficMismatches(comparison)},
                                 {list, nlohmann::ordered_json::array()}};
  for (const RoadResult& road : comparison.roads) {
    nlohmann::ordered_json runs = nlohmann::ordered_json::array();
    for (const MeasuredRun& run : road.runs) runs.push_back(ToJson(run));
    json[list].push_back({{one, road.road}, {"runs", runs}});
  }
  return json;
}

}  // namespace

absl::StatusOr<Comparison> CompareAndPrint(const Session& session, const v1::JobSpec& job,
                                           ComparisonOptions options) {
  // Before anything starts threads. A cluster of this process ends by itself when the process does.
  Interrupt interrupt;
  interrupt.Call([&session] {
    session.ReportInterrupt(
        "nothing is compared: the cluster of this run, its job and its files are removed within "
        "seconds; those of earlier runs are gone");
    EndAsInterrupted();
  });
  const bool text = session.output == Session::Output::kText;
  std::unique_ptr<ProgressDisplay> display;
  if (text) {
    options.starting = [&](const Road& road, int repeat) {
      Print("\n%s, run %d of %d\n", road.name, repeat + 1, options.repeats);
      display = std::make_unique<ProgressDisplay>();
    };
    options.changed = [&](const v1::JobStatus& status) { display->Show(status); };
    options.ended = [&] { display->Finish(); };
  }
  MUSTER_ASSIGN_OR_RETURN(Comparison comparison, RunComparison(job, options));
  if (!text) {
    PrintJsonText(DumpJson(ToJson(comparison), 1));
    return comparison;
  }
  const std::vector<std::vector<std::string>> table =
      ComparisonTable(comparison, TableStyle::kTerminal);
  const std::string servers =
      options.of == Comparison::Of::kRoads
          ? absl::StrCat(", ", comparison.servers, " servers (none for all-reduce),\n")
      : options.of == Comparison::Of::kStages ? " by all-reduce, "
                                              : ", ";
  Print("\n%s: %d workers%sbatch %d, %d processors for all", comparison.job, comparison.workers,
        servers, comparison.batch_size, comparison.processors);
  if (options.repeats > 1) {
    Print("; medians of %d runs, ± the farthest run", options.repeats);
  }
  Print("\n\n");
  Print("%s", FormatTable(table));
  for (const std::string& reason : comparison.left_out) {
    Print("left out: %s\n", reason);
  }
  for (const std::string& line : TrafficMismatches(comparison)) {
    Print("NOT AS PREDICTED: %s\n", line);
  }
  return comparison;
}

}  // namespace muster
