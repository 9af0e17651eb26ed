#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

struct LogsArguments {
  bool follow = false;
  uint64_t tail_lines = 0;
  std::string since;
  uint32_t slot = 0;
  // Options that tell whether they are on the command line.
  const CLI::Option* tail_option = nullptr;
  const CLI::Option* slot_option = nullptr;
};

absl::StatusOr<uint64_t> Milliseconds(const std::string& since) {
  absl::Duration duration;
  if (!absl::ParseDuration(since, &duration) || duration < absl::Milliseconds(1) ||
      duration == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--since is \"", since, "\"; write how long ago, as in 90s, 10m, 2h or 1h30m"));
  }
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(duration));
}

absl::Status ShowLogs(const Session& session, JobClient& jobs, const std::string& job_id,
                      const LogsArguments& arguments) {
  v1::ReadLogsRequest request;
  request.set_job_id(job_id);
  request.set_follow(arguments.follow);
  if (arguments.tail_option->count() > 0) request.set_tail_lines(arguments.tail_lines);
  if (arguments.slot_option->count() > 0) request.set_slot(arguments.slot);
  if (!arguments.since.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t since_ms, Milliseconds(arguments.since));
    request.set_since_ms(since_ms);
  }
  return jobs.Logs(request, [&session](absl::string_view text) {
    if (session.output == Session::Output::kJson) {
      session.PrintResult("", {{"text", std::string(text)}});
    } else {
      WriteText(stdout, text);
    }
  });
}

}  // namespace

void AddLogs(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<LogsArguments>();
  auto* command =
      AddJobCommand(app, session, "logs", "Print what a job's tasks wrote",
                    [arguments](Session& session, JobClient& jobs, const std::string& job_id) {
                      return ShowLogs(session, jobs, job_id, *arguments);
                    });
  command->add_flag("--follow,-f", arguments->follow, "Keep printing until the job ends");
  arguments->tail_option = command->add_option(
      "--tail", arguments->tail_lines, "Begin with this many lines from the end of the log");
  command->add_option("--since", arguments->since,
                      "Begin with what was written in the last 90s, 10m, 1h30m, ...");
  arguments->slot_option = command->add_option(
      "--slot", arguments->slot, "Print only what tasks of this slot wrote (0, 1, ...)");
  command->footer(
      "Example: muster logs JOB --tail 20 --follow\n"
      "         muster logs JOB --since 10m --slot 2\n"
      "The coordinator keeps the last 4 MiB of a job's log (its flag --log-bytes). A line says how "
      "much older text was dropped.");
}

}  // namespace muster
