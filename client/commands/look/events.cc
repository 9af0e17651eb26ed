#include <CLI/CLI.hpp>

#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"

namespace muster {

void AddEvents(CLI::App& app, Session& session) {
  AddJobCommand(app, session, "events", "Print what happened to a job, in order",
                [](Session& session, JobClient& jobs, const std::string& job_id) -> absl::Status {
                  v1::ListEventsReply reply;
                  MUSTER_RETURN_IF_ERROR(jobs.Events(job_id, reply));
                  if (session.output == Session::Output::kJson) {
                    session.PrintJson(reply);
                    return absl::OkStatus();
                  }
                  for (const v1::JobEvent& event : reply.events()) {
                    const absl::Time time = absl::FromUnixMillis(event.unix_ms());
                    Print("%s  %s\n",
                          absl::FormatTime("%Y-%m-%d %H:%M:%E3S", time, absl::LocalTimeZone()),
                          // A program's output comes in lines of its own.
                          absl::StrReplaceAll(PrintableText(event.text()), {{"\n", "\n    "}}));
                  }
                  return absl::OkStatus();
                })
      ->footer("Example: muster events JOB");
}

}  // namespace muster
