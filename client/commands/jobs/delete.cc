#include <CLI/CLI.hpp>

#include "client/cluster/session.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "common/base/status_macros.h"

namespace muster {

void AddDelete(CLI::App& app, Session& session) {
  AddJobCommand(
      app, session, "delete", "Remove an ended job with its checkpoints, logs and events",
      [](Session& session, JobClient& jobs, const std::string& job_id) -> absl::Status {
        MUSTER_RETURN_IF_ERROR(jobs.Delete(job_id));
        session.PrintResult(job_id + " deleted", {{"job_id", job_id}, {"state", "DELETED"}});
        return absl::OkStatus();
      },
      {.naming = JobClient::Naming::kOne})
      ->footer("Example: muster delete JOB");
}

}  // namespace muster
