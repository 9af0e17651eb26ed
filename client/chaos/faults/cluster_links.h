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

// Two processes that talk to each other; one that stands for a worker is the worker and its tasks.
// Of two workers either may call the other.
struct Link {
  std::string caller;
  std::string called;

  // Such as "worker-0 to server-1".
  std::string Name() const { return caller + " to " + called; }
};

// All links of a cluster on this machine, each by way of a proxy, so that each can be cut, made
// half-open or slow without a look at the others. Daemons listen on 127.0.0.1 and are called at
// 127.0.0.2, the same port, where the proxies are; each has a proxy of its own to the coordinator.
// What two processes of one machine would share memory for goes by TCP. Thread-safe.
class ClusterLinks {
 public:
  // Takes ports and starts proxies for daemons that are named as `muster up` names them, one slot
  // on each worker. Unavailable: no ports.
  static absl::StatusOr<std::unique_ptr<ClusterLinks>> Create(int servers, int workers);

  // What the cluster is to be started with: see LocalClusterOptions.
  int coordinator_port() const { return coordinator_port_; }
  const std::vector<std::string>& daemon_flags() const { return daemon_flags_; }
  // Of the cluster, once that is started: tells callers apart.
  void SetSupervisor(pid_t supervisor) { supervisor_ = supervisor; }

  // The coordinator's address for a client, whose link is {"client", "coordinator"}.
  std::string client_address() const;

  // The others: servers and workers to the coordinator, workers to servers, workers to workers, and
  // servers to servers, between which partitions move.
  std::vector<Link> links() const;

  // From now on; returns when it is so.
  void SetFault(const Link& link, LinkFault fault);

 private:
  ClusterLinks(int servers, int workers) : servers_(servers), workers_(workers) {}

  struct Proxy {
    std::string called;
    std::unique_ptr<LinkProxy> proxy;
  };

  absl::Status Start();
  // Where `called` is reached by this one caller.
  absl::StatusOr<uint16_t> AddCoordinatorProxy(const std::string& caller);
  // On the ports that these listeners hold; who calls is found out for each connection.
  absl::Status AddProxies(const std::string& called, std::vector<TcpListener> listeners);
  void AddFlag(const std::string& daemon, const std::string& flag);

  const int servers_;
  const int workers_;
  int coordinator_port_ = 0;
  std::vector<std::string> daemon_flags_;
  std::atomic<pid_t> supervisor_{0};
  // Const after Create. Last: their threads use the rest.
  std::vector<Proxy> proxies_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_CLUSTER_LINKS_H_
