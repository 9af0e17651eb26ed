#include <CLI/CLI.hpp>
#include <string>

#include "client/cluster/session.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "proto/status.pb.h"

namespace muster {

void AddRebalance(CLI::App& app, Session& session) {
  auto* command = AddJobCommand(
      app, session, "rebalance",
      "Spread a running job's partitions over all servers, new ones included",
      [](Session& session, JobClient& jobs, const std::string& job_id) -> absl::Status {
        v1::JobStatus job;
        MUSTER_RETURN_IF_ERROR(jobs.Rebalance(job_id, job));
        if (session.output == Session::Output::kJson) {
          session.PrintJson(job);
        } else {
          Print("partitions of %s move one by one; `muster events %s` shows each move\n", job_id,
                job_id);
        }
        return absl::OkStatus();
      });
  command->footer("Example: muster rebalance JOB");
}

}  // namespace muster
