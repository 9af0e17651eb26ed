#ifndef MUSTER_CLIENT_CHAOS_FAULTS_CLUSTER_LINKS_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_CLUSTER_LINKS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/chaos/faults/link_fault.h"
#include "client/chaos/faults/link_proxy.h"

namespace muster {

// Two processes that talk to each other. A worker's name stands for the worker and its tasks.
// Between two workers either may be the caller.
struct Link {
  std::string caller;
  std::string called;

  // Returns a name such as "worker-0 to server-1".
  std::string Name() const { return caller + " to " + called; }
};

// All links of a cluster on this machine, each through a proxy, so that each can be cut, made
// half-open or slowed without affecting the others. Daemons listen on 127.0.0.1 and are called at
// 127.0.0.2, at the same port, where the proxies listen; each daemon has a proxy of its own to the
// coordinator. Processes use TCP where they would otherwise share memory. Thread-safe.
class ClusterLinks {
 public:
  // Takes ports and starts proxies for daemons with the names that `muster up` gives, one slot per
  // worker. Unavailable: no ports are free.
  static absl::StatusOr<std::unique_ptr<ClusterLinks>> Create(int servers, int workers);

  // Values for LocalClusterOptions to start the cluster with.
  int coordinator_port() const { return coordinator_port_; }
  const std::vector<std::string>& daemon_flags() const { return daemon_flags_; }
  // Sets the supervisor of the started cluster, by which callers are told apart.
  void SetSupervisor(pid_t supervisor) { supervisor_ = supervisor; }

  // Returns the coordinator's address for a client, whose link is {"client", "coordinator"}.
  std::string client_address() const;

  // Returns the other links: servers and workers to the coordinator, workers to servers, workers to
  // workers, and servers to servers, between which partitions move.
  std::vector<Link> links() const;

  // Sets the fault of a link from now on; returns once the fault is in effect.
  void SetFault(const Link& link, LinkFault fault);

 private:
  ClusterLinks(int servers, int workers) : servers_(servers), workers_(workers) {}

  struct Proxy {
    std::string called;
    std::unique_ptr<LinkProxy> proxy;
  };

  absl::Status Start();
  // Adds a proxy for one caller and returns its port.
  absl::StatusOr<uint16_t> AddCoordinatorProxy(const std::string& caller);
  // Adds proxies on the ports of these listeners; each connection's caller is looked up.
  absl::Status AddProxies(const std::string& called, std::vector<TcpListener> listeners);
  void AddFlag(const std::string& daemon, const std::string& flag);

  const int servers_;
  const int workers_;
  int coordinator_port_ = 0;
  std::vector<std::string> daemon_flags_;
  std::atomic<pid_t> supervisor_{0};
  // Const after Create. Declared last, since the proxies' threads use the other members.
  std::vector<Proxy> proxies_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_CLUSTER_LINKS_H_
