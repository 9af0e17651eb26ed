#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/commands/commands.h"
#include "client/format.h"
#include "client/progress.h"
#include "client/session.h"
#include "client/terminal.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"

namespace muster {

void AddList(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand("list", "List jobs");
  command->footer("Example: muster list --output json");
  command->callback([&session] {
    session.Run([&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
      v1::ListJobsReply reply;
      MUSTER_RETURN_IF_ERROR(jobs->List(reply));
      if (session.output == Session::Output::kJson) {
        session.PrintJson(reply);
        return absl::OkStatus();
      }
      std::vector<std::vector<std::string>> rows = {
          {"JOB", "NAME", "STATE", "STEP", "LOSS", "AGE"}};
      for (const v1::JobStatus& job : reply.jobs()) {
        const v1::JobProgress& progress = job.progress();
        rows.push_back({job.job_id(), job.spec().name(), StateName(job),
                        absl::StrCat(progress.step(), "/", progress.total_steps()),
                        progress.step() == 0 ? "-" : absl::StrFormat("%.4f", progress.loss()),
                        FormatSeconds(absl::ToDoubleSeconds(
                            absl::Now() - absl::FromUnixMillis(job.submitted_unix_ms())))});
      }
      Print("%s", FormatTable(rows));
      for (const v1::JobStatus& job : reply.jobs()) {
        if (job.waiting_for().empty()) continue;
        Print("%s waits: %s\n", PrintableLine(job.job_id()), PrintableLine(job.waiting_for()));
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace muster
