#include <CLI/CLI.hpp>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/terminal/format.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_name.h"
#include "common/text/format_bytes.h"
#include "common/text/printable.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// Returns where a checkpoint is, with CLOCK for its own clock, so that those of a job are at one
// place.
std::string PlaceOf(const v1::CheckpointStatus& checkpoint) {
  absl::string_view folder = checkpoint.uri();
  if (!absl::ConsumeSuffix(&folder, absl::StrCat("/", checkpoint.clock()))) return checkpoint.uri();
  return absl::StrCat(folder, "/CLOCK");
}

absl::Status List(Session& session, JobClient& jobs, const std::string& job_id) {
  v1::ListCheckpointsReply reply;
  MUSTER_RETURN_IF_ERROR(jobs.Checkpoints(job_id, reply));
  if (session.output == Session::Output::kJson) {
    session.PrintJson(reply);
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows = {{"CLOCK", "KIND", "FILES", "SIZE", "AGE"}};
  std::set<std::string> places;
  std::string damaged;
  for (const v1::CheckpointStatus& checkpoint : reply.checkpoints()) {
    const std::string clock = absl::StrCat(checkpoint.clock(), checkpoint.best() ? " best" : "");
    places.insert(PlaceOf(checkpoint));
    if (!checkpoint.damage().empty()) {
      rows.push_back({clock, "damaged", "-", "-", "-"});
      absl::StrAppend(&damaged, checkpoint.clock(),
                      " is damaged: ", PrintableLine(checkpoint.damage()), "\n");
      continue;
    }
    rows.push_back(
        {clock,
         checkpoint.has_base_clock() ? absl::StrCat("delta on ", checkpoint.base_clock()) : "full",
         absl::StrCat(checkpoint.files()), FormatBytes(static_cast<double>(checkpoint.bytes())),
         FormatSeconds(absl::ToDoubleSeconds(absl::Now() -
                                             absl::FromUnixMillis(checkpoint.created_unix_ms())))});
  }
  Print("%s%s", FormatTable(rows), damaged);
  for (const std::string& place : places) Print("in %s\n", PrintableLine(place));
  return absl::OkStatus();
}

absl::Status Verify(Session& session, JobClient& jobs, const CheckpointName& name) {
  v1::VerifyCheckpointReply reply;
  MUSTER_RETURN_IF_ERROR(jobs.VerifyCheckpoint(RequestFor(name), reply));
  if (!reply.damage().empty()) session.exit_code = kFailure;
  if (session.output == Session::Output::kJson) {
    session.PrintJson(reply);
    return absl::OkStatus();
  }
  for (const std::string& damage : reply.damage()) Print("%s\n", PrintableLine(damage));
  const std::string found =
      reply.damage().empty() ? "intact" : absl::StrCat(reply.damage_size(), " damaged");
  Print("%s@%llu: %u files, %s: %s\n", name.job_id, reply.clock(), reply.files(),
        FormatBytes(static_cast<double>(reply.bytes())), found);
  return absl::OkStatus();
}

absl::Status Delete(Session& session, JobClient& jobs, const CheckpointName& called,
                    bool with_deltas) {
  if (!called.clock.has_value() && !called.best) {
    return absl::InvalidArgumentError(
        absl::StrCat("which checkpoint of job ", called.job_id, "? write ", called.job_id,
                     "@CLOCK or ", called.job_id, "@best; `muster checkpoint list ", called.job_id,
                     "` shows the clocks of its checkpoints"));
  }
  v1::JobStatus job;
  if (called.best) MUSTER_RETURN_IF_ERROR(jobs.Get(called.job_id, job));
  MUSTER_ASSIGN_OR_RETURN(const CheckpointName name, WithClockOfBest(called, job));
  v1::DeleteCheckpointRequest request;
  request.set_job_id(name.job_id);
  request.set_clock(*name.clock);
  request.set_with_deltas(with_deltas);
  v1::DeleteCheckpointReply reply;
  MUSTER_RETURN_IF_ERROR(jobs.DeleteCheckpoint(request, reply));
  if (session.output == Session::Output::kJson) {
    session.PrintJson(reply);
  } else if (reply.clocks().empty()) {
    Print("%s has no checkpoint at clock %llu; nothing to delete\n", name.job_id, *name.clock);
  } else {
    Print("deleted of %s: the checkpoint%s at %s\n", name.job_id,
          reply.clocks_size() > 1 ? "s" : "", absl::StrJoin(reply.clocks(), ", "));
  }
  return absl::OkStatus();
}

struct RestoreArguments {
  uint64_t steps = 0;
  double epochs = 0;
  bool watch = false;
};

absl::Status Restore(Session& session, JobClient& jobs, const CheckpointName& called,
                     const RestoreArguments& arguments) {
  v1::JobStatus source;
  MUSTER_RETURN_IF_ERROR(jobs.Get(called.job_id, source));
  MUSTER_ASSIGN_OR_RETURN(const CheckpointName name, WithClockOfBest(called, source));
  const uint64_t clock = name.clock.value_or(source.checkpoint_clock());
  if (arguments.steps > 0 && arguments.steps <= clock) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--steps is ", arguments.steps, ", but ", name.job_id, "@", clock, " has made ", clock,
        " steps already, and --steps counts from the start of the first job: for ", arguments.steps,
        " more steps give --steps ", clock + arguments.steps));
  }
  if (const uint64_t stop = source.spec().stop().steps();
      arguments.steps == 0 && arguments.epochs == 0 && stop > 0 && stop <= clock) {
    return absl::InvalidArgumentError(absl::StrCat(
        name.job_id, "@", clock, " is where the job stops, at step ", stop,
        ": say how far to go on, as in --steps ", clock + stop, " for ", stop, " more steps"));
  }
  v1::JobSpec spec = source.spec();
  // The checkpoint holds the weights, so the initial ones are not needed.
  spec.clear_initial_weights();
  spec.set_resume_from(TextOf(name));
  if (arguments.steps > 0 || arguments.epochs > 0) {
    spec.mutable_stop()->clear_steps();
    spec.mutable_stop()->clear_epochs();
    if (arguments.steps > 0) spec.mutable_stop()->set_steps(arguments.steps);
    if (arguments.epochs > 0) spec.mutable_stop()->set_epochs(arguments.epochs);
  }
  v1::SubmitJobReply reply;
  MUSTER_RETURN_IF_ERROR(jobs.Submit(spec, *reply.mutable_job_id()));
  if (session.output == Session::Output::kJson) {
    session.PrintJson(reply);
  } else {
    Print("%s\n", reply.job_id());
  }
  return arguments.watch ? session.WatchToEnd(reply.job_id()) : absl::OkStatus();
}

}  // namespace

void AddCheckpoint(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand(
      "checkpoint", "List, verify and delete a job's checkpoints, or continue from one");
  command->require_subcommand(1);
  command->footer(
      "Example: muster checkpoint list JOB\n"
      "         muster checkpoint verify JOB@400\n"
      "         muster checkpoint delete JOB@400\n"
      "         muster checkpoint restore JOB@best --steps 2000 --watch");
  AddJobCommand(*command, session, "list", "List a job's complete checkpoints, oldest first", List)
      ->footer("Example: muster checkpoint list JOB --output json");

  AddCheckpointCommand(*command, session, "verify",
                       "Read a checkpoint's files and compare them with what was written. If any "
                       "is damaged, the command names it and exits with 1",
                       kCheckpointArgument, Verify)
      ->footer("Example: muster checkpoint verify JOB@400");

  auto with_deltas = std::make_shared<bool>(false);
  auto* remove = AddCheckpointCommand(
      *command, session, "delete", "Remove one checkpoint",
      "JOB@CLOCK or JOB@best; JOB is an id, or a name that no other job has",
      [with_deltas](Session& session, JobClient& jobs, const CheckpointName& name) {
        return Delete(session, jobs, name, *with_deltas);
      },
      {.naming = JobClient::Naming::kOne});
  remove->add_flag("--with-deltas", *with_deltas,
                   "Also delete the later delta checkpoints that need this one");
  remove->footer("Example: muster checkpoint delete JOB@400");

  auto arguments = std::make_shared<RestoreArguments>();
  auto* restore = AddCheckpointCommand(
      *command, session, "restore",
      "Submit a new job that continues the checkpoint's job from there, with its weights, "
      "optimizer state and clock",
      kCheckpointArgument,
      [arguments](Session& session, JobClient& jobs, const CheckpointName& name) {
        return Restore(session, jobs, name, *arguments);
      },
      {.before = [&session, arguments] {
        if (!arguments->watch) return;
        session.CatchInterrupt(absl::StrCat("the new job may have been submitted; `",
                                            session.CommandLine("list"), "` shows it then"));
      }});
  auto* steps = restore->add_option("--steps", arguments->steps,
                                    "Step to stop at, counted from the start of the first job: "
                                    "more than the checkpoint's clock. Default: where that job "
                                    "would stop");
  restore->add_option("--epochs", arguments->epochs, "Like --steps, in passes over the data")
      ->excludes(steps);
  restore->add_flag("--watch", arguments->watch, "Show progress until the job ends");
  restore->footer(
      "Example: muster checkpoint restore JOB@400 --steps 2000 --watch\n"
      "This makes 1600 more steps.");
}

}  // namespace muster
