#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/terminal/format.h"
#include "client/terminal/terminal.h"
#include "client/trace/chrome_trace.h"
#include "common/base/status_macros.h"
#include "common/files/output_file.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"
#include "proto/trace.pb.h"

namespace muster {
namespace {

struct TraceArguments {
  uint32_t steps = 10;
  uint32_t wait_seconds = 0;
  std::string out;
  Replace replace = Replace::kNever;
};

// Returns which steps were asked for, such as `steps 120 to 129`.
std::string StepsOf(const v1::TraceOrder& order) {
  return absl::StrCat("steps ", order.first_step(), " to ", order.end_step() - 1);
}

// Says on standard error what the trace lacks.
void Warn(const ChromeTrace& trace) {
  const v1::TraceChunk& last = trace.last();
  for (const v1::TraceProcess& process : last.missing()) {
    PrintError("muster: %s did not send all of its events: %s\n", PrintableLine(NameOf(process)),
               PrintableLine(last.ended_because()));
  }
  for (const std::string& process : trace.uncompared()) {
    PrintError("muster: the clock of %s was not compared with the coordinator's\n",
               PrintableLine(process));
  }
  if (trace.dropped() > 0) {
    PrintError("muster: %s events were left out; trace fewer steps\n",
               FormatCount(trace.dropped()));
  }
  if (last.lost_pieces() > 0) {
    PrintError("muster: %d pieces came faster than this command took them, and are lost\n",
               last.lost_pieces());
  }
}

absl::Status TraceJob(Session& session, JobClient& jobs, const std::string& job_id,
                      const TraceArguments& arguments) {
  const std::string out =
      arguments.out.empty() ? absl::StrCat("trace-", job_id, ".json") : arguments.out;
  // Before the job is traced.
  MUSTER_RETURN_IF_ERROR(OutputTarget(out, arguments.replace).status());
  v1::TraceJobRequest request;
  request.set_job_id(job_id);
  request.set_steps(arguments.steps);
  request.set_wait_ms(arguments.wait_seconds * 1000);
  ChromeTrace trace;
  MUSTER_RETURN_IF_ERROR(jobs.Trace(request, [&](const v1::TraceChunk& chunk) {
    if (chunk.has_order() && session.output == Session::Output::kText) {
      PrintError("muster: records %s of %s\n", StepsOf(chunk.order()), PrintableLine(job_id));
    }
    return trace.Add(chunk);
  }));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                          OutputFile::Create(out, arguments.replace));
  MUSTER_RETURN_IF_ERROR(trace.Write([&](absl::string_view part) { return file->Write(part); }));
  MUSTER_RETURN_IF_ERROR(file->Publish());
  Warn(trace);
  const double error_us = static_cast<double>(trace.clock_error_ns()) / 1e3;
  std::string text = absl::StrCat(out, ": ", FormatCount(trace.events()), " events of ",
                                  StepsOf(trace.first().order()));
  if (trace.events() > 0) {
    absl::StrAppendFormat(
        &text, ", clocks right within %s; open it at https://ui.perfetto.dev or chrome://tracing",
        FormatTime(error_us / 1e6));
  }
  session.PrintResult(text, {{"file", out},
                             {"events", absl::StrCat(trace.events())},
                             {"first_step", absl::StrCat(trace.first().order().first_step())},
                             {"end_step", absl::StrCat(trace.first().order().end_step())},
                             {"clock_error_us", absl::StrFormat("%.3f", error_us)},
                             {"missing", absl::StrCat(trace.last().missing_size())}});
  return absl::OkStatus();
}

}  // namespace

void AddTrace(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<TraceArguments>();
  auto* command = AddJobCommand(
      app, session, "trace", "Record what a job's tasks and servers do in its next steps",
      [arguments](Session& session, JobClient& jobs, const std::string& job_id) {
        return TraceJob(session, jobs, job_id, *arguments);
      });
  command->add_option("--steps", arguments->steps, "Number of steps")
      ->check(CLI::Range(1u, 100u))
      ->capture_default_str();
  command->add_option("--out", arguments->out, "File to write. Default: trace-JOB.json")
      ->option_text("FILE");
  command
      ->add_option("--wait", arguments->wait_seconds,
                   "Longest time for all to send their events. Default: by the job's speed")
      ->check(CLI::Range(1u, 3600u))
      ->option_text("SECONDS");
  AddForceFlag(*command, arguments->replace);
  command->footer(
      "Example: muster trace JOB --steps 20 --out trace.json\n"
      "The file is in Chrome's trace event format. https://ui.perfetto.dev and chrome://tracing "
      "show it: each task and server with the units it computes, its pulls and pushes, collective "
      "calls, waits and optimizer, on one clock. Warnings say whose events are missing.");
}

}  // namespace muster
