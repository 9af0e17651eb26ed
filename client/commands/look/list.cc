#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/commands.h"
#include "client/terminal/format.h"
#include "client/terminal/progress.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

struct ListArguments {
  std::vector<std::string> states;
  std::string owner;
  std::string name;
  std::vector<std::string> labels;
  // 0: all.
  size_t limit = 0;
  std::string page;
  bool short_view = false;
};

// On a terminal long names are cut, so that a line fits 80 columns; `status` shows them whole.
std::string ShownName(const std::string& name) {
  constexpr size_t kMostCharacters = 28;
  const std::string shown = PrintableLine(name);
  return isatty(STDOUT_FILENO) == 1 ? CutText(shown, kMostCharacters) : shown;
}

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int state = v1::JobState_MIN; state <= v1::JobState_MAX; ++state) {
    if (state == v1::JOB_STATE_UNSPECIFIED || !v1::JobState_IsValid(state)) continue;
    names.push_back(v1::JobState_Name(static_cast<v1::JobState>(state)));
  }
  return names;
}

void PrintText(const v1::ListJobsReply& reply, const ListArguments& arguments) {
  if (reply.jobs().empty()) {
    const bool all = arguments.states.empty() && arguments.owner.empty() &&
                     arguments.name.empty() && arguments.labels.empty() && arguments.page.empty();
    return Print("%s\n",
                 all ? "no jobs yet; `muster submit FILE --watch` runs one" : "no such job");
  }
  std::vector<std::vector<std::string>> rows = {{"JOB", "NAME", "STATE", "STEP", "LOSS", "AGE"}};
  for (const v1::JobStatus& job : reply.jobs()) {
    const v1::JobProgress& progress = job.progress();
    rows.push_back({job.job_id(), ShownName(job.spec().name()), StateName(job),
                    absl::StrCat(progress.step(), "/", progress.total_steps()), LossText(progress),
                    FormatSeconds(absl::ToDoubleSeconds(
                        absl::Now() - absl::FromUnixMillis(job.submitted_unix_ms())))});
  }
  Print("%s", FormatTable(rows));
  for (const v1::JobStatus& job : reply.jobs()) {
    if (job.waiting_for().empty()) continue;
    Print("%s waits: %s\n", PrintableLine(job.job_id()), PrintableLine(job.waiting_for()));
  }
  if (!reply.next_page_token().empty()) {
    Print("older jobs: the same command with --limit %d --page %s\n", arguments.limit,
          PrintableLine(reply.next_page_token()));
  }
}

// Adds a label that jobs must have, written NAME=VALUE, or NAME for any value.
absl::Status AddLabel(const std::string& text, v1::ListJobsRequest& request) {
  const size_t equals = std::min(text.find('='), text.size());
  const std::string name = text.substr(0, equals);
  const std::string value = equals == text.size() ? "*" : text.substr(equals + 1);
  if (name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--label ", PrintableLine(text), " names no label; give NAME=VALUE, or NAME alone"));
  }
  if (!request.mutable_labels()->insert({name, value}).second) {
    return absl::InvalidArgumentError(
        absl::StrCat("--label ", PrintableLine(name), " is given twice; give it once"));
  }
  return absl::OkStatus();
}

absl::Status ListJobs(Session& session, const ListArguments& arguments) {
  v1::ListJobsRequest request;
  for (const std::string& name : arguments.states) {
    // The option takes no other names.
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    if (v1::JobState_Parse(name, &state)) request.add_states(state);
  }
  request.set_owner(arguments.owner);
  request.set_name(arguments.name);
  for (const std::string& label : arguments.labels) {
    MUSTER_RETURN_IF_ERROR(AddLabel(label, request));
  }
  // The table shows no more.
  if (arguments.short_view || session.output == Session::Output::kText) {
    request.set_view(v1::ListJobsRequest::SHORT);
  }
  request.set_page_token(arguments.page);
  request.set_newest_first(arguments.limit > 0);
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
  v1::ListJobsReply reply;
  MUSTER_RETURN_IF_ERROR(jobs->List(
      request, reply, arguments.limit > 0 ? arguments.limit : std::numeric_limits<size_t>::max()));
  // The newest one comes last, with or without a limit.
  if (request.newest_first()) {
    std::reverse(reply.mutable_jobs()->pointer_begin(), reply.mutable_jobs()->pointer_end());
  }
  if (session.output == Session::Output::kJson) {
    session.PrintJson(reply);
  } else {
    PrintText(reply, arguments);
  }
  return absl::OkStatus();
}

}  // namespace

void AddList(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ListArguments>();
  auto* command = app.add_subcommand("list", "List jobs, newest last");
  command
      ->add_option("--state", arguments->states,
                   absl::StrCat("Only jobs in one of these states: ", JoinWithOr(StateNames())))
      ->delimiter(',')
      ->transform(OneOf(StateNames()))
      ->option_text("STATE,...");
  command->add_option("--owner", arguments->owner, "Only jobs of this owner");
  command->add_option("--name", arguments->name,
                      "Only jobs with this name; `*` stands for any characters, `?` for one");
  command
      ->add_option("--label", arguments->labels,
                   "Only jobs with this label and value, in which `*` and `?` stand for others; "
                   "given several times: with each")
      ->option_text("NAME=VALUE");
  command->add_flag("--short", arguments->short_view,
                    "With --output json: leave out models, data, tasks, partitions and all but the "
                    "last evaluations");
  auto* limit =
      command
          ->add_option("--limit", arguments->limit, "Show only the newest jobs, at most this many")
          ->check(CLI::PositiveNumber);
  command
      ->add_option("--page", arguments->page,
                   "Show older jobs: the page that a list with --limit names at its end")
      ->needs(limit);
  command->footer(
      "Example: muster list --state running,pending --owner ada\n"
      "         muster list --name 'digits*' --limit 20\n"
      "         muster list --label team=vision --label 'run=2026-*'");
  command->callback(
      [&session, arguments] { session.Run([&] { return ListJobs(session, *arguments); }); });
}

}  // namespace muster
