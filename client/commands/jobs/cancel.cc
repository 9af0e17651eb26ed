#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/cluster/session.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/terminal/progress.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "proto/status.pb.h"

namespace muster {

void AddCancel(CLI::App& app, Session& session) {
  auto reason = std::make_shared<std::string>("cancelled by its user");
  auto* command = AddJobCommand(
      app, session, "cancel", "End a job; its last checkpoint stays",
      [reason](Session& session, JobClient& jobs, const std::string& job_id) -> absl::Status {
        v1::JobStatus job;
        MUSTER_RETURN_IF_ERROR(jobs.Cancel(job_id, *reason, job));
        if (session.output == Session::Output::kJson) {
          session.PrintJson(job);
        } else {
          Print("%s %s at step %llu\n", job_id, StateName(job),
                static_cast<unsigned long long>(job.progress().step()));
        }
        return absl::OkStatus();
      },
      {.naming = JobClient::Naming::kOneUnfinished,
       .unreachable = "; as far as is known the job goes on, since its tasks need no coordinator: "
                      "cancel it again when one answers"});
  command->add_option("--reason", *reason, "Who cancels, and why; kept with the job")
      ->capture_default_str();
  command->footer("Example: muster cancel JOB --reason \"learning rate too high\"");
}

}  // namespace muster
