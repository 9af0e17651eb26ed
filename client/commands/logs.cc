#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "client/commands/commands.h"
#include "client/commands/job_argument.h"
#include "client/session.h"
#include "client/terminal.h"

namespace muster {

void AddLogs(CLI::App& app, Session& session) {
  auto follow = std::make_shared<bool>(false);
  auto* command = AddJobCommand(
      app, session, "logs", "Print what a job's tasks wrote",
      [follow](Session& session, JobClient& jobs, const std::string& job_id) {
        return jobs.Logs(job_id, *follow ? JobClient::Follow::kUntilEnd : JobClient::Follow::kNo,
                         [&session](absl::string_view text) {
                           if (session.output == Session::Output::kJson) {
                             session.PrintResult("", {{"text", std::string(text)}});
                             return;
                           }
                           WriteText(stdout, text);
                         });
      });
  command->add_flag("--follow,-f", *follow, "Go on until the job ends");
  command->footer("Example: muster logs JOB --follow");
}

}  // namespace muster
