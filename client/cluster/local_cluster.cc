#include "client/cluster/local_cluster.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cluster/job_client.h"
#include "client/cluster/spawn.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/daemon/file_access.h"
#include "common/daemon/tls_flags.h"
#include "common/daemon/utf8_flag.h"
#include "common/rpc/rpc_credentials.h"
#include "common/rpc/rpc_status.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kClusterStartPatience = absl::Seconds(30);
// The supervisor gives each kind of daemon its time to stop.
constexpr absl::Duration kClusterStopPatience = absl::Seconds(25);
constexpr absl::Duration kClusterPoll = absl::Milliseconds(50);

int LiveDaemons(const std::string& coordinator_address, const RpcCredentials& credentials) {
  JobClient jobs(coordinator_address, credentials);
  v1::GetClusterReply cluster;
  if (!jobs.Cluster(cluster).ok()) return 0;
  int live = 0;
  for (const v1::DaemonStatus& daemon : cluster.daemons()) live += daemon.live();
  return live;
}

std::string LastLine(const std::string& file) {
  std::ifstream lines(file);
  std::string last;
  for (std::string line; std::getline(lines, line);) last = line;
  return last;
}

}  // namespace

std::string DefaultClusterFolder() {
  const char* home = std::getenv("HOME");
  return absl::StrCat(home == nullptr ? "/tmp" : home, "/.muster/cluster");
}

absl::StatusOr<LocalCluster> StartLocalCluster(const ClusterFolder& folder,
                                               const LocalClusterOptions& options) {
  if (options.servers < 0 || options.workers < 1 || options.slots_per_worker < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a cluster needs at least 1 worker and 1 slot (jobs that train by all-reduce need no "
        "server); given were workers: ",
        options.workers, ", slots: ", options.slots_per_worker, ", servers: ", options.servers));
  }
  MUSTER_ASSIGN_OR_RETURN(const RpcCredentials credentials,
                          RpcCredentials::Of(options.tls, TlsUse::kCallsAndServes));
  MUSTER_RETURN_IF_ERROR(Annotate(CheckIsUtf8(folder.path()), "the cluster's folder (--data-dir)"));
  // A cluster's files, its logs included, are only for its user.
  LimitFileAccess(FileAccess::kUser);
  MUSTER_RETURN_IF_ERROR(folder.Prepare());
  MUSTER_RETURN_IF_ERROR(folder.TakeLock().status());
  if (options.alert_command.has_value()) {
    MUSTER_RETURN_IF_ERROR(folder.WriteAlertCommand(*options.alert_command));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string self, FindProgram("muster"));
  const std::string log = folder.LogOf("supervisor");
  const pid_t owner = options.life == LocalClusterOptions::Life::kOfThisProcess ? getpid() : 0;
  std::vector<std::string> command = {self,
                                      "supervise",
                                      "--data-dir=" + folder.path(),
                                      absl::StrCat("--servers=", options.servers),
                                      absl::StrCat("--workers=", options.workers),
                                      absl::StrCat("--slots=", options.slots_per_worker),
                                      absl::StrCat("--port=", options.port),
                                      absl::StrCat("--owner=", owner)};
  if (options.page_port.has_value()) {
    command.push_back(absl::StrCat("--page-port=", *options.page_port));
  }
  for (const std::string& flag : options.worker_flags) command.push_back("--worker-flag=" + flag);
  for (const std::string& flag : options.daemon_flags) command.push_back("--daemon-flag=" + flag);
  if (options.allow_programs) command.push_back("--allow-programs");
  for (const std::string& argument : TlsArguments(options.tls)) command.push_back(argument);
  MUSTER_ASSIGN_OR_RETURN(
      const pid_t pid,
      Spawn({.command = std::move(command), .output_file = log, .detached = true}));
  const absl::Duration until = RealClock().Monotonic() + kClusterStartPatience;
  while (RealClock().Monotonic() < until && !options.interrupted()) {
    if (waitpid(pid, nullptr, WNOHANG) == pid) {
      return absl::InternalError(
          absl::StrCat("the cluster did not start: ", LastLine(log), "; its log is ", log));
    }
    const absl::StatusOr<LocalCluster> cluster = folder.Read();
    // A file of an earlier cluster has another supervisor.
    if (cluster.ok() && cluster->supervisor_pid == pid &&
        LiveDaemons(cluster->coordinator_address, credentials) ==
            options.servers + options.workers) {
      return cluster;
    }
    absl::SleepFor(kClusterPoll);
  }
  kill(pid, SIGTERM);
  MUSTER_RETURN_IF_ERROR(folder.AwaitStop(kClusterStopPatience));
  if (options.interrupted()) {
    return absl::CancelledError(absl::StrCat("the cluster in ", folder.path(),
                                             " is stopped again; what it wrote stays there"));
  }
  return absl::InternalError(absl::StrCat("not all daemons joined within ",
                                          absl::FormatDuration(kClusterStartPatience),
                                          "; logs are in ", folder.path(), "/logs"));
}

absl::Status StopLocalCluster(const ClusterFolder& folder) {
  const absl::StatusOr<LocalCluster> cluster = folder.Read();
  if (absl::IsUnavailable(cluster.status())) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(cluster.status());
  kill(cluster->supervisor_pid, SIGTERM);
  return folder.AwaitStop(kClusterStopPatience);
}

}  // namespace muster
