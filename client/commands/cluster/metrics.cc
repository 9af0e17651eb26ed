#include <CLI/CLI.hpp>
#include <string>

#include "client/cluster/session.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "proto/job_service.pb.h"

namespace muster {

void AddMetrics(CLI::App& app, Session& session) {
  auto* command =
      app.add_subcommand("metrics", "Print the cluster's metrics in Prometheus text format");
  command->footer("Example: muster metrics | grep pushed");
  command->callback([&session] {
    session.Run([&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
      v1::GetMetricsReply reply;
      MUSTER_RETURN_IF_ERROR(jobs->Metrics(*reply.mutable_text()));
      if (session.output == Session::Output::kJson) {
        session.PrintJson(reply);
      } else {
        Print("%s", reply.text());
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace muster
