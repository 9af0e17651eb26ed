#include "client/compare/report.h"

#include <CLI/CLI.hpp>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/files/output_file.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

// Points of each series: as many as a chart has room for.
constexpr uint32_t kMostPoints = 500;

struct ReportArguments {
  std::vector<std::string> jobs;
  std::string out;
  Replace replace = Replace::kNever;
};

absl::StatusOr<ReportedJob> ReadJob(JobClient& jobs, const std::string& called) {
  ReportedJob job;
  MUSTER_ASSIGN_OR_RETURN(const std::string id, jobs.Find(called));
  MUSTER_RETURN_IF_ERROR(jobs.Get(id, job.status));
  v1::ReadMetricsRequest request;
  request.set_job_id(id);
  request.set_max_points(kMostPoints);
  // These concern the whole job.
  for (const char* series : {"train/*", "held_out/*", "speed/*", "staleness/*"}) {
    request.add_series(series);
  }
  v1::MetricsChunk history;
  MUSTER_RETURN_IF_ERROR(jobs.History(request, history));
  job.history.assign(std::make_move_iterator(history.mutable_series()->begin()),
                     std::make_move_iterator(history.mutable_series()->end()));
  return job;
}

absl::Status WriteReport(Session& session, const ReportArguments& arguments) {
  MUSTER_RETURN_IF_ERROR(CheckOutputFile(arguments.out, arguments.replace));
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
  std::vector<ReportedJob> reported;
  for (const std::string& called : arguments.jobs) {
    MUSTER_ASSIGN_OR_RETURN(ReportedJob job, ReadJob(*jobs, called));
    reported.push_back(std::move(job));
  }
  MUSTER_RETURN_IF_ERROR(WriteOutputFile(arguments.out, arguments.replace, JobsReport(reported)));
  session.PrintResult(absl::StrCat("report: ", PrintableLine(arguments.out)),
                      {{"report", arguments.out}});
  return absl::OkStatus();
}

}  // namespace

void AddReport(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ReportArguments>();
  auto* command = app.add_subcommand(
      "report", "Write jobs' curves, figures and differences as one HTML file, to be shared");
  command->add_option("jobs", arguments->jobs, "Ids or names of jobs, running or ended")
      ->required()
      ->type_name(kJobType);
  command->add_option("--out", arguments->out, "HTML file to write; it needs no other")
      ->required()
      ->option_text("FILE.html");
  AddForceFlag(*command, arguments->replace);
  command->callback(
      [&session, arguments] { session.Run([&] { return WriteReport(session, *arguments); }); });
  command->footer(
      "Example: muster report JOB OTHER --out runs.html\n"
      "Whoever has the file sees all of the jobs' specifications, but for the values of programs' "
      "environments.");
}

}  // namespace muster
