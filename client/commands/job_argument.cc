#include "client/commands/job_argument.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "client/session.h"
#include "common/base/status_macros.h"

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

}  // namespace muster
