#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cluster/local_cluster.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/collective_flags.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"

namespace muster {

void AddUp(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand("up", "Start a cluster on this machine");
  auto options = std::make_shared<LocalClusterOptions>();
  command->add_option("--servers", options->servers, "Number of parameter servers")
      ->capture_default_str();
  command->add_option("--workers", options->workers, "Number of worker daemons")
      ->capture_default_str();
  command
      ->add_option("--slots", options->slots_per_worker,
                   "Number of tasks that each worker runs at once")
      ->capture_default_str();
  command->add_option("--port", options->port, "Port of the coordinator; 0 takes a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  options->page_port = 0;
  command
      ->add_option("--page-port", options->page_port,
                   "Port of the page that shows the cluster in a browser; 0 takes a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_flag("--allow-programs", options->allow_programs,
                    "Take jobs that run a program of yours (model.program), as your user. Whoever "
                    "can read the file program.token in the data folder can submit them");
  AddCollectiveFlags(*command, options->worker_flags);
  command->footer("Example: muster up --servers 2 --workers 2 --data-dir /var/tmp/muster");
  command->callback([&session, options] {
    session.Run([&]() -> absl::Status {
      if (session.data_dir.empty()) session.data_dir = DefaultClusterFolder();
      options->tls = session.tls;
      const ClusterFolder folder(std::filesystem::absolute(session.data_dir).string());
      MUSTER_ASSIGN_OR_RETURN(const LocalCluster cluster, StartLocalCluster(folder, *options));
      // The cluster runs, whatever its user may write.
      if (const absl::Status noted = SetCurrentClusterFolder(folder.path()); !noted.ok()) {
        PrintError(
            "muster: %s, so commands do not use this cluster by default; give them --data-dir %s\n",
            noted.message(), folder.path());
      }
      session.PrintResult(
          absl::StrCat(cluster.servers, cluster.servers == 1 ? " server" : " servers", " and ",
                       cluster.workers, cluster.workers == 1 ? " worker run" : " workers run",
                       ", coordinator ", cluster.coordinator_address, "\npage: ", cluster.page,
                       "\ndata and logs: ", folder.path()),
          {{"coordinator", cluster.coordinator_address},
           {"page", cluster.page},
           {"data_dir", folder.path()},
           {"servers", absl::StrCat(cluster.servers)},
           {"workers", absl::StrCat(cluster.workers)}});
      return absl::OkStatus();
    });
  });
}

}  // namespace muster
