#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "client/cluster/local_cluster.h"
#include "client/cluster/session.h"
#include "client/commands/commands.h"
#include "common/base/status_macros.h"

namespace muster {

void AddDown(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand("down", "Stop the cluster on this machine; its data stays");
  command->footer("Example: muster down --data-dir /var/tmp/muster");
  command->callback([&session] {
    session.Run([&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(const ClusterFolder folder, session.Folder());
      MUSTER_RETURN_IF_ERROR(StopLocalCluster(folder));
      session.PrintResult(absl::StrCat("the cluster in ", folder.path(), " is stopped"),
                          {{"data_dir", folder.path()}, {"state", "STOPPED"}});
      return absl::OkStatus();
    });
  });
}

}  // namespace muster
