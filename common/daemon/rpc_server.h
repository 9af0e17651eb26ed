#ifndef MUSTER_COMMON_DAEMON_RPC_SERVER_H_
#define MUSTER_COMMON_DAEMON_RPC_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/daemon/connection_gate.h"
#include "common/rpc/rpc_credentials.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace muster {

// The name under which gRPC's health service tells that the process answers at all. Its answer for
// the empty name tells more: whether the daemon can do its work.
inline constexpr char kLiveness[] = "live";

struct RpcServerOptions {
  // True if the daemon can do its work as soon as it answers; otherwise SetReady says when.
  bool ready = true;
  // Approximate limit on bytes that gRPC has received and not handed over to the services; 0: none.
  size_t received_bytes = 0;
};

// A port that a daemon listens on. Callers connect from then on, and wait in the system's queue
// until an RpcServer is started on it: a daemon that first has to read its data listens before, so
// that those who come meanwhile are neither refused nor try again all the while. Without a server
// they are let go when it ends.
class RpcPort {
 public:
  // Listens on `listen`, HOST:PORT, port 0 taking a free one. Unavailable, InvalidArgument: cannot
  // listen there.
  static absl::StatusOr<RpcPort> Listen(const std::string& listen,
                                        const RpcCredentials& credentials);

  // The HOST:PORT listened on.
  const std::string& address() const { return address_; }

 private:
  friend class RpcServer;

  RpcPort(std::string address, const RpcCredentials& credentials,
          std::unique_ptr<ConnectionGate> gate);

  std::string address_;
  RpcCredentials credentials_;
  std::unique_ptr<ConnectionGate> gate_;
};

// A daemon's rpc port while it is served: its services, gRPC's health and reflection services, and
// a bound on its connections, so that no number of them keeps it from answering.
class RpcServer {
 public:
  // Serves on the port. The services outlive the server. Unavailable: gRPC cannot serve there.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      RpcPort port, const std::vector<grpc::Service*>& services,
      const RpcServerOptions& options = {});
  ~RpcServer();

  // The HOST:PORT listened on.
  const std::string& address() const { return address_; }

  // Tells whether the daemon can do its work, which its readiness probe learns (the health
  // service's answer for the empty name, SERVING or NOT_SERVING). Thread-safe.
  void SetReady(bool ready);

  // Takes no more connections and calls; those under way are cancelled after `patience`. Blocks
  // until all are over.
  void Shutdown(absl::Duration patience);

 private:
  RpcServer() = default;

  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionGate> gate_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_RPC_SERVER_H_
