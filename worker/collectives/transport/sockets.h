#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_SOCKETS_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_SOCKETS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collectives/transport/descriptor.h"

// Sockets as ranks use them: none blocks, none is inherited by children.
namespace muster {

struct TcpListener {
  Descriptor socket;
  uint16_t port = 0;
};

// Any free port. InvalidArgument: `host` is unknown or a wildcard. Unavailable: it cannot be used.
absl::StatusOr<TcpListener> ListenTcp(const std::string& host);
absl::StatusOr<Descriptor> ListenUnix(const std::string& abstract_name);

// Unavailable: refused, or no answer until the deadline.
absl::StatusOr<Descriptor> ConnectTcp(const std::string& host, uint16_t port, absl::Time deadline);
absl::StatusOr<Descriptor> ConnectUnix(const std::string& abstract_name, absl::Time deadline);

// Whether the process at the other end of a unix socket has this process's user.
bool SameUser(int unix_socket);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_SOCKETS_H_
