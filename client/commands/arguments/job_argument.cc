#include "client/commands/arguments/job_argument.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/exit_code.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/choices.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

const char* ArgumentText(JobClient::Naming naming) {
  switch (naming) {
    case JobClient::Naming::kNewest:
      return "Id or name of the job. If several jobs have this name: the newest that has not "
             "ended, or else the newest";
    case JobClient::Naming::kOneUnfinished:
      return "Id of the job, or its name if only one job of this name has not ended";
    case JobClient::Naming::kOne:
      return "Id of the job, or its name if no other job has it";
  }
  return "";
}

}  // namespace

absl::StatusOr<CheckpointName> FindCheckpoint(JobClient& jobs, const std::string& text,
                                              JobClient::Naming naming) {
  MUSTER_ASSIGN_OR_RETURN(CheckpointName checkpoint, ParseCheckpointName(text));
  MUSTER_ASSIGN_OR_RETURN(checkpoint.job_id, jobs.Find(checkpoint.job_id, naming));
  return checkpoint;
}

absl::StatusOr<CheckpointName> WithClockOfBest(const CheckpointName& checkpoint,
                                               const v1::JobStatus& job) {
  if (!checkpoint.best) return checkpoint;
  if (!job.has_best()) {
    return absl::NotFoundError(absl::StrCat(
        "job ", PrintableLine(job.job_id()), " has no best checkpoint; `muster checkpoint list ",
        PrintableLine(job.job_id()), "` shows those there are"));
  }
  CheckpointName named = checkpoint;
  named.best = false;
  named.clock = job.best().clock();
  return named;
}

CLI::App* AddJobCommand(
    CLI::App& app, Session& session, const std::string& name, const std::string& description,
    std::function<absl::Status(Session& session, JobClient& jobs, const std::string& job_id)> body,
    JobCommandOptions options) {
  auto* command = app.add_subcommand(name, description);
  auto called = std::make_shared<std::string>();
  command->add_option("job", *called, ArgumentText(options.naming))
      ->required()
      ->type_name(kJobType);
  command->callback([&session, called, name, options = std::move(options), body = std::move(body)] {
    session.Run([&]() -> absl::Status {
      options.before();
      MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
      const absl::StatusOr<std::string> job_id = jobs->Find(*called, options.naming);
      if (absl::IsNotFound(job_id.status()) && absl::StrContains(*called, '@')) {
        return absl::NotFoundError(absl::StrCat(job_id.status().message(), "; `", name,
                                                "` takes a job: leave @CLOCK or @best out"));
      }
      const absl::Status status = job_id.ok() ? body(session, *jobs, *job_id) : job_id.status();
      if (ExitCodeFor(status) != kUnreachable) return status;
      return NoCoordinatorError(absl::StrCat(status.message(), options.unreachable));
    });
  });
  return command;
}

CLI::App* AddCheckpointCommand(
    CLI::App& app, Session& session, const std::string& name, const std::string& description,
    const std::string& argument,
    std::function<absl::Status(Session& session, JobClient& jobs, const CheckpointName& checkpoint)>
        body,
    JobCommandOptions options) {
  auto* command = app.add_subcommand(name, description);
  auto text = std::make_shared<std::string>();
  command->add_option("checkpoint", *text, argument)->required()->type_name(kCheckpointType);
  command->callback([&session, text, options = std::move(options), body = std::move(body)] {
    session.Run([&]() -> absl::Status {
      options.before();
      // The text is checked first, so that its errors are the same without a cluster.
      MUSTER_RETURN_IF_ERROR(ParseCheckpointName(*text).status());
      MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
      MUSTER_ASSIGN_OR_RETURN(const CheckpointName checkpoint,
                              FindCheckpoint(*jobs, *text, options.naming));
      return body(session, *jobs, checkpoint);
    });
  });
  return command;
}

void AddAveragedFlag(CLI::App& command, bool& averaged) {
  command.add_flag("--averaged", averaged,
                   "Take the averages that the job kept of its weights (optimizer.average_decay) "
                   "instead of the weights");
}

v1::CheckpointRequest RequestFor(const CheckpointName& checkpoint) {
  v1::CheckpointRequest request;
  request.set_job_id(checkpoint.job_id);
  if (checkpoint.clock.has_value()) request.set_clock(*checkpoint.clock);
  request.set_best(checkpoint.best);
  return request;
}

std::string TextOf(const CheckpointName& checkpoint) {
  if (checkpoint.best) return absl::StrCat(checkpoint.job_id, "@best");
  return checkpoint.clock.has_value() ? absl::StrCat(checkpoint.job_id, "@", *checkpoint.clock)
                                      : checkpoint.job_id;
}

}  // namespace muster
