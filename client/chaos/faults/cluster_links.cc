#include "client/chaos/faults/cluster_links.h"

#include "absl/strings/str_cat.h"
#include "client/chaos/faults/cluster_processes.h"
#include "client/chaos/faults/socket_owner.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/daemon/daemon.h"

namespace muster {
namespace {

constexpr char kDaemonHost[] = "127.0.0.1";
constexpr char kProxyHost[] = "127.0.0.2";
constexpr char kCoordinator[] = "coordinator";
constexpr char kClient[] = "client";
// Below the ports that systems give to callers, so that none of those is in the way when a daemon
// starts again.
constexpr uint16_t kFirstPort = 20000;
constexpr uint16_t kPorts = 12000;
constexpr int kAttempts = 1000;
// Ports for a worker's tasks: the one in its slot, one that has yet to end, and one to spare.
constexpr int kTaskPorts = 3;

// Consecutive ports that are free at both hosts, held at the proxies'.
absl::StatusOr<std::vector<TcpListener>> TakePorts(int count) {
  const Philox random(RandomBits());
  absl::Status failure;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto first = static_cast<uint16_t>(kFirstPort + random.Below(kPorts, attempt));
    std::vector<TcpListener> held;
    while (static_cast<int>(held.size()) < count) {
      const auto port = static_cast<uint16_t>(first + held.size());
      absl::StatusOr<TcpListener> proxy = ListenTcpAt(kProxyHost, port);
      failure = proxy.ok() ? ListenTcpAt(kDaemonHost, port).status() : proxy.status();
      if (!failure.ok()) break;
      held.push_back(*std::move(proxy));
    }
    if (failure.ok()) return held;
  }
  return absl::UnavailableError(absl::StrCat("no ", count, " consecutive free ports from ",
                                             kFirstPort, " upwards: ", failure.message()));
}

std::string Server(int i) { return absl::StrCat("server-", i); }
std::string Worker(int i) { return absl::StrCat("worker-", i); }

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterLinks>> ClusterLinks::Create(int servers, int workers) {
  auto links = std::unique_ptr<ClusterLinks>(new ClusterLinks(servers, workers));
  MUSTER_RETURN_IF_ERROR(links->Start());
  return links;
}

void ClusterLinks::AddFlag(const std::string& daemon, const std::string& flag) {
  daemon_flags_.push_back(absl::StrCat(daemon, ":", flag));
}

absl::StatusOr<uint16_t> ClusterLinks::AddCoordinatorProxy(const std::string& caller) {
  MUSTER_ASSIGN_OR_RETURN(TcpListener listener, ListenTcp(kProxyHost));
  LinkProxy::Options options;
  options.target_port = static_cast<uint16_t>(coordinator_port_);
  options.caller = [caller](uint16_t) { return caller; };
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<LinkProxy> proxy,
                          LinkProxy::Create(std::move(listener), std::move(options)));
  const uint16_t port = proxy->port();
  proxies_.push_back({.called = kCoordinator, .proxy = std::move(proxy)});
  return port;
}

absl::Status ClusterLinks::AddProxies(const std::string& called,
                                      std::vector<TcpListener> listeners) {
  for (TcpListener& listener : listeners) {
    LinkProxy::Options options;
    options.target_host = kDaemonHost;
    options.target_port = listener.port;
    options.caller = [this, called_port = listener.port](uint16_t port) {
      const std::vector<ClusterProcess> processes = ClusterProcesses(supervisor_);
      std::vector<pid_t> pids;
      for (const ClusterProcess& process : processes) pids.push_back(process.pid);
      const pid_t owner = ConnectionOwner(port, called_port, pids);
      for (const ClusterProcess& process : processes) {
        if (process.pid == owner) return process.daemon;
      }
      return std::string();
    };
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<LinkProxy> proxy,
                            LinkProxy::Create(std::move(listener), std::move(options)));
    proxies_.push_back({.called = called, .proxy = std::move(proxy)});
  }
  return absl::OkStatus();
}

absl::Status ClusterLinks::Start() {
  // Held for as long as the cluster lives, though nobody calls there.
  MUSTER_ASSIGN_OR_RETURN(std::vector<TcpListener> coordinator, TakePorts(1));
  coordinator_port_ = coordinator[0].port;
  MUSTER_RETURN_IF_ERROR(AddProxies(kCoordinator, std::move(coordinator)));
  MUSTER_RETURN_IF_ERROR(AddCoordinatorProxy(kClient).status());
  const auto add_coordinator_flag = [this](const std::string& daemon) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(const uint16_t port, AddCoordinatorProxy(daemon));
    AddFlag(daemon, absl::StrCat("--coordinator=", kProxyHost, ":", port));
    return absl::OkStatus();
  };
  for (int i = 0; i < servers_; ++i) {
    const std::string name = Server(i);
    MUSTER_RETURN_IF_ERROR(add_coordinator_flag(name));
    MUSTER_ASSIGN_OR_RETURN(std::vector<TcpListener> held, TakePorts(2));
    AddFlag(name, absl::StrCat("--listen=", kDaemonHost, ":", held[0].port));
    AddFlag(name, absl::StrCat("--advertise=", kProxyHost, ":", held[0].port));
    AddFlag(name, absl::StrCat("--data-host=", kDaemonHost));
    AddFlag(name, absl::StrCat("--data-port=", held[1].port));
    AddFlag(name, absl::StrCat("--data-advertise=", kProxyHost));
    AddFlag(name, "--shared-memory=0");
    MUSTER_RETURN_IF_ERROR(AddProxies(name, std::move(held)));
  }
  for (int i = 0; i < workers_; ++i) {
    const std::string name = Worker(i);
    MUSTER_RETURN_IF_ERROR(add_coordinator_flag(name));
    MUSTER_ASSIGN_OR_RETURN(std::vector<TcpListener> held, TakePorts(kTaskPorts));
    AddFlag(name, absl::StrCat("--collectives-host=", kDaemonHost));
    AddFlag(name, absl::StrCat("--collectives-advertise=", kProxyHost));
    AddFlag(name, absl::StrCat("--collectives-ports=", held.front().port, "-", held.back().port));
    AddFlag(name, "--collectives-transport=tcp");
    MUSTER_RETURN_IF_ERROR(AddProxies(name, std::move(held)));
  }
  return absl::OkStatus();
}

std::string ClusterLinks::client_address() const {
  // The second proxy: see Start.
  return absl::StrCat(kProxyHost, ":", proxies_[1].proxy->port());
}

std::vector<Link> ClusterLinks::links() const {
  std::vector<Link> links;
  for (int i = 0; i < servers_; ++i) {
    links.push_back({Server(i), kCoordinator});
    for (int j = i + 1; j < servers_; ++j) links.push_back({Server(i), Server(j)});
  }
  for (int i = 0; i < workers_; ++i) links.push_back({Worker(i), kCoordinator});
  for (int i = 0; i < workers_; ++i) {
    for (int j = 0; j < servers_; ++j) links.push_back({Worker(i), Server(j)});
    for (int j = i + 1; j < workers_; ++j) links.push_back({Worker(i), Worker(j)});
  }
  return links;
}

void ClusterLinks::SetFault(const Link& link, LinkFault fault) {
  for (Proxy& entry : proxies_) {
    if (entry.called == link.called) entry.proxy->SetFault(link.caller, fault);
    if (entry.called == link.caller) entry.proxy->SetFault(link.called, fault.Reversed());
  }
}

}  // namespace muster
