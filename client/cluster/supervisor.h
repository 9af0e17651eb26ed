#ifndef MUSTER_CLIENT_CLUSTER_SUPERVISOR_H_
#define MUSTER_CLIENT_CLUSTER_SUPERVISOR_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cluster/cluster_folder.h"
#include "common/base/clock.h"
#include "common/rpc/tls_files.h"

namespace muster {

// Runs the daemons of a cluster on this machine and restarts those that die. The coordinator runs
// the folder's command for alerts. On SIGTERM or SIGINT
// it stops workers, servers and the coordinator, in this order, and returns. Runs in a process of
// its own (`muster supervise`), with one thread.
class Supervisor {
 public:
  struct Options {
    std::string data_dir;
    int servers = 2;
    int workers = 2;
    int slots_per_worker = 1;
    // Port of the coordinator; 0 takes the one that it had last in this folder if that is free, or
    // else any free one.
    int port = 0;
    // Port of its page, as above. Absent: no page.
    std::optional<int> page_port;
    // Passed on to every worker.
    std::vector<std::string> worker_flags;
    // Flags for single daemons, as NAME:--FLAG=VALUE, such as "server-0:--memory=1GiB". A flag here
    // replaces the same flag that the daemon would be given.
    std::vector<std::string> daemon_flags;
    // Parent process whose end ends the cluster and removes its folder; 0: the cluster runs until
    // it is stopped.
    pid_t owner = 0;
    // TLS files of every daemon.
    TlsFiles tls;
    // Workers take jobs that run programs.
    bool allow_programs = false;
  };

  explicit Supervisor(Options options);

  // Blocks until told to stop, and holds the folder's lock until the process ends. AlreadyExists: a
  // cluster runs in the folder. NotFound: a daemon's program is missing.
  absl::Status Run();

 private:
  struct Daemon {
    std::string name;
    std::vector<std::string> command;
    pid_t pid = 0;
    // Times on the monotonic clock: the next start, and the last one.
    absl::Duration start_at;
    absl::Duration started;
    // Time to wait after the next death.
    absl::Duration backoff;
  };

  // Returns `command` with the flags that every daemon is given and those of this daemon.
  std::vector<std::string> Command(const std::string& name, std::vector<std::string> command) const;
  struct Coordinator {
    std::string address;
    // URL of the page; empty: it serves none.
    std::string page;
  };
  absl::StatusOr<Coordinator> StartCoordinator();
  absl::Status AddDaemons(const std::string& coordinator_address);
  absl::Status StartDue();
  void Reap();
  void StopAll();

  const Options options_;
  const ClusterFolder folder_;
  const RealClock clock_;
  // The coordinator first, then servers, then workers.
  std::vector<Daemon> daemons_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CLUSTER_SUPERVISOR_H_
