#include <CLI/CLI.hpp>

#include "client/cluster/session.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"

namespace muster {

void AddWatch(CLI::App& app, Session& session) {
  AddJobCommand(app, session, "watch", "Show a job's progress until it ends",
                [](Session& session, JobClient&, const std::string& job_id) {
                  return session.WatchToEnd(job_id);
                },
                {.before =
                     [&session] {
                       session.CatchInterrupt("nothing changes: the job, if there is one, goes on");
                     }})
      ->footer(
          "Example: muster watch JOB\n"
          "Exits with 3 if the job fails or is cancelled.");
}

}  // namespace muster
