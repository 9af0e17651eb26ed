#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/commands.h"
#include "client/terminal/format.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/text/format_bytes.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

std::string StateOf(const v1::DaemonStatus& daemon,
                    const std::map<std::string, const v1::DrainStatus*>& drains) {
  const auto it = drains.find(daemon.id());
  if (it == drains.end()) return "-";
  if (daemon.slots_used() > 0) {
    return absl::StrCat("draining, ", daemon.slots_used(), " slots in use");
  }
  if (it->second->partitions() == 0) return "drained";
  return absl::StrCat("draining, ", it->second->partitions(), " partitions left");
}

std::string DevicesOf(const v1::DaemonStatus& daemon) {
  if (daemon.devices().empty()) return "-";
  return absl::StrCat(daemon.devices_used(), "/", daemon.devices_size(), " ",
                      daemon.devices(0).name());
}

}  // namespace

void AddCluster(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand(
      "cluster", "List the cluster's daemons with their slots, devices and memory");
  command->footer("Example: muster cluster");
  command->callback([&session] {
    session.Run([&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
      v1::GetClusterReply reply;
      MUSTER_RETURN_IF_ERROR(jobs->Cluster(reply));
      if (session.output == Session::Output::kJson) {
        session.PrintJson(reply);
        return absl::OkStatus();
      }
      std::vector<std::vector<std::string>> rows = {
          {"DAEMON", "KIND", "ADDRESS", "LIVE", "SLOTS", "DEVICES", "MEMORY", "STATE"}};
      std::map<std::string, const v1::DrainStatus*> drains;
      for (const v1::DrainStatus& drain : reply.drains()) drains[drain.server_id()] = &drain;
      for (const v1::DaemonStatus& daemon : reply.daemons()) {
        const bool worker = daemon.kind() == v1::WORKER;
        rows.push_back({daemon.id(), worker ? "worker" : "server", daemon.address(),
                        daemon.live() ? "yes" : "no",
                        worker ? absl::StrCat(daemon.slots_used(), "/", daemon.slots()) : "-",
                        DevicesOf(daemon),
                        absl::StrCat(FormatBytes(daemon.memory_reserved_bytes()), " of ",
                                     FormatBytes(daemon.memory_bytes())),
                        StateOf(daemon, drains)});
      }
      Print("%s", FormatTable(rows));
      for (const v1::DrainStatus& drain : reply.drains()) {
        for (const std::string& reason : drain.waiting_for()) {
          Print("%s: %s\n", PrintableLine(drain.server_id()), PrintableLine(reason));
        }
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace muster
