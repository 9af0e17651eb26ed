#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cluster/local_cluster.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/collective_flags.h"
#include "client/commands/commands.h"
#include "client/terminal/interrupt.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/daemon/utf8_flag.h"
#include "common/text/printable.h"

namespace muster {
namespace {

// Makes the cluster the one that commands use, and returns a line that says so, and which other one
// they used before.
std::string MakeCurrent(const ClusterFolder& folder) {
  const std::string last = CurrentClusterFolder();
  // The cluster runs, whatever its user may write.
  if (const absl::Status noted = SetCurrentClusterFolder(folder.path()); !noted.ok()) {
    PrintError(
        "muster: %s, so commands do not use this cluster by default; give them --data-dir %s\n",
        noted.message(), folder.path());
    return "";
  }
  const bool other = !last.empty() && last != folder.path() && ClusterFolder(last).IsRunning();
  return absl::StrCat("\ncommands use this cluster from now on",
                      other ? absl::StrCat("; the one in ", last,
                                           " runs on, and they use it with --data-dir ", last)
                            : "");
}

// Returns lines on ports that the cluster had before and could not take again.
std::string DescribePorts(const ClusterPorts& before, const LocalClusterOptions& options,
                          const ClusterFolder& folder) {
  const ClusterPorts now = folder.ReadPorts();
  std::string text;
  const auto describe = [&text](const char* whose, int asked, int last, int port) {
    if (asked != 0 || last == 0 || port == 0 || port == last) return;
    absl::StrAppend(&text, "\nport ", last, ", which ", whose, " had before, is in use: it is ",
                    port, " now");
  };
  describe("the coordinator", options.port, before.coordinator, now.coordinator);
  describe("the page", options.page_port.value_or(0), before.page, now.page);
  return text;
}

// Returns a line on the command for alerts, which may be that of an earlier cluster in the folder;
// empty if there is none.
std::string DescribeAlerts(const ClusterFolder& folder) {
  const std::string command = folder.ReadAlertCommand();
  return command.empty() ? "" : absl::StrCat("\nalerts run: ", PrintableLine(command));
}

// Returns a line on the programs of a virtual environment in which the cluster is started; empty
// if there is none.
std::string DescribePath() {
  const char* environment = std::getenv("VIRTUAL_ENV");
  if (environment == nullptr || *environment == '\0') return "";
  return absl::StrCat("\nprograms do not run in the virtual environment ", environment,
                      ": give its python by path in model.program.command, ", environment,
                      "/bin/python");
}

}  // namespace

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
  command
      ->add_option("--port", options->port,
                   "Port of the coordinator; 0 takes that of the last time in this folder if it is "
                   "free, or else any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  options->page_port = 0;
  command
      ->add_option("--page-port", options->page_port,
                   "Port of the page that shows the cluster in a browser; 0 as for --port")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_flag("--allow-programs", options->allow_programs,
                    "Take jobs that run a program of yours (model.program), as your user. Whoever "
                    "can read the file program.token in the data folder can submit them");
  // An empty command would leave an optional unset.
  command
      ->add_option_function<std::string>(
          "--alert-command",
          [options](const std::string& alert) { options->alert_command = alert; },
          "Command for /bin/sh that the coordinator runs when a job ends or stalls; "
          "docs/operations.md "
          "says what it is told. Later clusters in this folder run it, too; '' is none")
      ->option_text("COMMAND")
      ->check(Utf8Flag());
  AddCollectiveFlags(*command, options->worker_flags);
  command->footer("Example: muster up --servers 2 --workers 2 --data-dir /var/tmp/muster");
  command->callback([&session, options] {
    session.Run([&]() -> absl::Status {
      if (session.data_dir.empty()) session.data_dir = DefaultClusterFolder();
      options->tls = session.tls;
      const ClusterFolder folder(std::filesystem::absolute(session.data_dir).string());
      const ClusterPorts before = folder.ReadPorts();
      // Before anything starts threads. Whoever interrupts twice does not wait for the end.
      Interrupt interrupt;
      const auto give_up = [&session, &folder] {
        session.ReportInterrupt(absl::StrCat("the cluster in ", folder.path(),
                                             " may still run; `muster down --data-dir ",
                                             folder.path(), "` stops it"));
        EndAsInterrupted();
      };
      interrupt.Call([&interrupt, &give_up] { interrupt.Call(give_up); });
      LocalClusterOptions wanted = *options;
      wanted.interrupted = [&interrupt] { return interrupt.happened(); };
      const absl::StatusOr<LocalCluster> started = StartLocalCluster(folder, wanted);
      if (absl::IsCancelled(started.status()) && interrupt.happened()) {
        session.Fail(kInterrupted, "INTERRUPTED", std::string(started.status().message()));
        return absl::OkStatus();
      }
      MUSTER_RETURN_IF_ERROR(started.status());
      const LocalCluster& cluster = *started;
      session.PrintResult(
          absl::StrCat(cluster.servers, cluster.servers == 1 ? " server" : " servers", " and ",
                       cluster.workers, cluster.workers == 1 ? " worker run" : " workers run",
                       ", coordinator ", cluster.coordinator_address, "\npage: ", cluster.page,
                       "\ndata and logs: ", folder.path(), MakeCurrent(folder),
                       DescribePorts(before, *options, folder), DescribeAlerts(folder),
                       options->allow_programs ? DescribePath() : ""),
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
