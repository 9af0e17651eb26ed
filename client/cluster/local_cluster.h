#ifndef MUSTER_CLIENT_CLUSTER_LOCAL_CLUSTER_H_
#define MUSTER_CLIENT_CLUSTER_LOCAL_CLUSTER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/cluster_folder.h"
#include "common/rpc/tls_files.h"

namespace muster {

struct LocalClusterOptions {
  // 0 is enough for jobs that train by all-reduce.
  int servers = 2;
  int workers = 2;
  int slots_per_worker = 1;
  // Port of the coordinator; 0 takes the one that it had last in this folder if that is free, or
  // else any free one.
  int port = 0;
  // Port of the coordinator's page, on loopback; 0 as above. Absent: no page.
  std::optional<int> page_port = {};
  // Passed on to every worker.
  std::vector<std::string> worker_flags = {};
  // See Supervisor::Options.
  std::vector<std::string> daemon_flags = {};
  // TLS files of every daemon; the certificate names 127.0.0.1.
  TlsFiles tls = {};
  // Workers take jobs that run programs.
  bool allow_programs = false;
  // Command that the coordinator runs for alerts (--alert-command); empty: none. Absent: that of
  // the last cluster in this folder.
  std::optional<std::string> alert_command = {};
  // Returns true once the user does not want the cluster any more; asked while it starts.
  std::function<bool()> interrupted = [] { return false; };
  enum class Life {
    // The cluster runs until it is stopped.
    kOfItsOwn,
    // The cluster ends, and its folder is removed, when this process ends in any way.
    kOfThisProcess,
  };
  Life life = Life::kOfItsOwn;
};

// Returns the folder of a cluster if none is named.
std::string DefaultClusterFolder();

// Starts a supervisor in a process of its own and returns once every daemon has joined.
// AlreadyExists: a cluster runs in the folder. InvalidArgument: no worker or no slot is asked for.
// Cancelled: the start was interrupted. Any other failure names the log to read. All leave nothing
// running.
absl::StatusOr<LocalCluster> StartLocalCluster(const ClusterFolder& folder,
                                               const LocalClusterOptions& options);

// Stops the cluster and blocks until its last process has ended. Safe to repeat.
absl::Status StopLocalCluster(const ClusterFolder& folder);

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_LOCAL_CLUSTER_H_
