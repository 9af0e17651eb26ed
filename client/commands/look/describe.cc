#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/cluster/session.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "proto/status.pb.h"

namespace muster {

void AddDescribe(CLI::App& app, Session& session) {
  auto text = std::make_shared<std::string>();
  auto* command = AddJobCommand(
      app, session, "describe", "Replace a job's description, also after the job has ended",
      [text](Session& session, JobClient& jobs, const std::string& job_id) -> absl::Status {
        v1::JobStatus job;
        MUSTER_RETURN_IF_ERROR(jobs.Describe(job_id, *text, job));
        if (session.output == Session::Output::kJson) {
          session.PrintJson(job);
        } else {
          Print("%s (%s) %s\n", job_id, PrintableLine(job.spec().name()),
                text->empty() ? "has no description any more" : "is described");
        }
        return absl::OkStatus();
      });
  command
      ->add_option("text", *text,
                   "The new description, of up to 4,096 bytes; \"\" removes the present one")
      ->required();
  command->footer(
      "Example: muster describe JOB \"baseline of the ablation; diverges after step 4,000\"");
}

}  // namespace muster
