#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/collective_flags.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/job_file_argument.h"
#include "client/commands/commands.h"
#include "client/commands/jobs/comparison_output.h"
#include "client/compare/process_usage.h"
#include "client/compare/report.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/files/output_file.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

struct CompareArguments {
  JobFileArgument job;
  std::string report;
  Replace replace = Replace::kNever;
  int processors = 0;
  ComparisonOptions options;
};

absl::Status RunCompare(const Session& session, const CompareArguments& arguments) {
  MUSTER_RETURN_IF_ERROR(session.RefuseCertificates());
  v1::JobSpec job;
  MUSTER_RETURN_IF_ERROR(arguments.job.Read(job));
  if (!arguments.report.empty()) {
    MUSTER_RETURN_IF_ERROR(CheckOutputFile(arguments.report, arguments.replace));
  }
  if (arguments.processors != 0 && !LimitProcessors(arguments.processors)) {
    return absl::InvalidArgumentError(absl::StrCat("--processors is ", arguments.processors,
                                                   ", but only ", AvailableProcessors(),
                                                   " are available"));
  }
  MUSTER_ASSIGN_OR_RETURN(const Comparison comparison,
                          CompareAndPrint(session, job, arguments.options));
  if (arguments.report.empty()) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(
      WriteOutputFile(arguments.report, arguments.replace, ComparisonReport(comparison)));
  if (session.output == Session::Output::kText) {
    Print("report: %s\n", arguments.report);
  }
  return absl::OkStatus();
}

}  // namespace

void AddCompare(CLI::App& app, Session& session) {
  auto* command =
      app.add_subcommand("compare",
                         "Train one job four ways (parameter servers with BSP, SSP and ASP; "
                         "all-reduce), by ZeRO stages or by a pipeline's schedules, on temporary "
                         "clusters on this machine, and compare them");
  auto arguments = std::make_shared<CompareArguments>();
  ComparisonOptions& options = arguments->options;
  arguments->job.AddTo(*command);
  command->add_option("--report", arguments->report,
                      "Also write a self-contained HTML page with curves and bars to this file");
  AddForceFlag(*command, arguments->replace);
  const auto compare_stages = [&options](int64_t) { options.of = Comparison::Of::kStages; };
  auto* const zero = command->add_flag_function(
      "--zero", compare_stages,
      "Compare ZeRO's stages 0 to 3 by all-reduce: memory, bytes, step time and loss");
  const auto compare_schedules = [&options](int64_t) { options.of = Comparison::Of::kSchedules; };
  command
      ->add_flag_function("--schedules", compare_schedules,
                          "Compare the schedules of a job's pipeline (parallelism.pipeline), and "
                          "the same micro-batches without it: speed and waiting beside what "
                          "passes' times predict, memory, bytes and loss")
      ->excludes(zero);
  command->add_option("--repeats", options.repeats, "Runs of each way, in alternating order")
      ->capture_default_str();
  command->add_option("--servers", options.servers, "Servers in each parameter-server run")
      ->capture_default_str();
  command->add_option("--staleness", options.staleness_bound, "Staleness bound of the SSP runs")
      ->capture_default_str();
  command
      ->add_option("--warmup", options.warmup_steps,
                   "First steps of each run, which the speeds leave out")
      ->capture_default_str();
  command
      ->add_option("--processors", arguments->processors,
                   "Processors that servers and workers share; 0: all of this machine")
      ->capture_default_str();
  AddCollectiveFlags(*command, options.worker_flags);
  command->footer(
      "Example: muster compare job.textproto --report comparison.html\n"
      "Replaces the job's update.dense, update.sparse and staleness in each run, and with\n"
      "--zero also parallelism.zero.stage and min_workers. With --schedules the road stays, and\n"
      "parallelism.pipeline_schedule is replaced; LAYER_WISE has one micro-batch.");
  command->callback(
      [&session, arguments] { session.Run([&] { return RunCompare(session, *arguments); }); });
}

}  // namespace muster
