#include "client/commands/job_argument.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session.h"
#include "common/base/status_macros.h"
#include "proto/job_service.pb.h"

namespace muster {

CLI::App* AddJobCommand(
    CLI::App& app, Session& session, const std::string& name, const std::string& description,
    std::function<absl::Status(Session& session, JobClient& jobs, const std::string& job_id)>
        body) {
  auto* command = app.add_subcommand(name, description);
  auto job_id = std::make_shared<std::string>();
  command->add_option("job", *job_id, "Id of the job, as `submit` and `list` print it")->required();
  command->callback([&session, job_id, body = std::move(body)] {
    session.Run([&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
      return body(session, *jobs, *job_id);
    });
  });
  return command;
}

CLI::App* AddCheckpointCommand(
    CLI::App& app, Session& session, const std::string& name, const std::string& description,
    const std::string& argument,
    std::function<absl::Status(Session& session, JobClient& jobs, const CheckpointName& checkpoint)>
        body) {
  auto* command = app.add_subcommand(name, description);
  auto text = std::make_shared<std::string>();
  command->add_option("checkpoint", *text, argument)->required();
  command->callback([&session, text, body = std::move(body)] {
    session.Run([&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(const CheckpointName checkpoint, ParseCheckpointName(*text));
      MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
      return body(session, *jobs, checkpoint);
    });
  });
  return command;
}

v1::CheckpointRequest RequestFor(const CheckpointName& checkpoint) {
  v1::CheckpointRequest request;
  request.set_job_id(checkpoint.job_id);
  if (checkpoint.clock.has_value()) request.set_clock(*checkpoint.clock);
  return request;
}

std::string TextOf(const CheckpointName& checkpoint) {
  return checkpoint.clock.has_value() ? absl::StrCat(checkpoint.job_id, "@", *checkpoint.clock)
                                      : checkpoint.job_id;
}

}  // namespace muster
