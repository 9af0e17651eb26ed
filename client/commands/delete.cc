#include <CLI/CLI.hpp>
#include <cstdio>

#include "client/commands/commands.h"
#include "client/commands/job_argument.h"
#include "client/session.h"
#include "common/base/status_macros.h"

namespace muster {

void AddDelete(CLI::App& app, Session& session) {
  AddJobCommand(app, session, "delete", "Remove an ended job with its checkpoints, logs and events",
                [](Session&, JobClient& jobs, const std::string& job_id) -> absl::Status {
                  MUSTER_RETURN_IF_ERROR(jobs.Delete(job_id));
                  std::printf("%s deleted\n", job_id.c_str());
                  return absl::OkStatus();
                })
      ->footer("Example: muster delete JOB");
}

}  // namespace muster
