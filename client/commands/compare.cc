#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/collective_flags.h"
#include "client/commands/commands.h"
#include "client/commands/comparison_output.h"
#include "client/commands/job_file_argument.h"
#include "client/compare/process_usage.h"
#include "client/compare/report.h"
#include "client/session.h"
#include "client/terminal.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

struct Arguments {
  JobFileArgument job;
  std::string report;
  int processors = 0;
  ComparisonOptions options;
};

absl::Status WriteReport(const Comparison& comparison, const std::string& path) {
  std::ofstream file(path, std::ios::trunc);
  file << ComparisonReport(comparison);
  file.close();
  if (!file)
    return absl::FailedPreconditionError(absl::StrCat("cannot write the report to ", path));
  return absl::OkStatus();
}

absl::Status RunCompare(const Session& session, const Arguments& arguments) {
  MUSTER_RETURN_IF_ERROR(session.RefuseCertificates());
  v1::JobSpec job;
  MUSTER_RETURN_IF_ERROR(arguments.job.Read(job));
  // Hours of runs must not end with a report that cannot be written.
  if (!arguments.report.empty() && !std::ofstream(arguments.report, std::ios::app)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write to ", arguments.report, "; name another file with --report"));
  }
  if (arguments.processors != 0 && !LimitProcessors(arguments.processors)) {
    return absl::InvalidArgumentError(absl::StrCat("--processors is ", arguments.processors,
                                                   ", and only ", AvailableProcessors(),
                                                   " are to be had here"));
  }
  MUSTER_ASSIGN_OR_RETURN(const Comparison comparison,
                          CompareAndPrint(session, job, arguments.options));
  if (arguments.report.empty()) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(WriteReport(comparison, arguments.report));
  if (session.output == Session::Output::kText) {
    Print("report: %s\n", arguments.report);
  }
  return absl::OkStatus();
}

}  // namespace

void AddCompare(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand(
      "compare",
      "Train one job by parameter servers (BSP, SSP, ASP) and by all-reduce, side by side, on "
      "clusters made for it on this machine");
  auto arguments = std::make_shared<Arguments>();
  ComparisonOptions& options = arguments->options;
  arguments->job.AddTo(*command);
  command->add_option("--report", arguments->report,
                      "Also write one self-contained HTML page with curves and bars to this file");
  command->add_option("--repeats", options.repeats, "Runs of each road, in alternating order")
      ->capture_default_str();
  command->add_option("--servers", options.servers, "Servers on the parameter-server roads")
      ->capture_default_str();
  command->add_option("--staleness", options.staleness_bound, "Bound of the SSP road")
      ->capture_default_str();
  command
      ->add_option("--warmup", options.warmup_steps,
                   "Steps at the start of each run that speeds leave out")
      ->capture_default_str();
  command
      ->add_option("--processors", arguments->processors,
                   "Processors that servers and workers share; 0 takes all")
      ->capture_default_str();
  AddCollectiveFlags(*command, options.worker_flags);
  command->footer(
      "Example: muster compare job.textproto --report roads.html\n"
      "What the job says of its road (update.dense, update.sparse, staleness) is replaced.");
  command->callback(
      [&session, arguments] { session.Run([&] { return RunCompare(session, *arguments); }); });
}

}  // namespace muster
