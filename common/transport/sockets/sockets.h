#ifndef MUSTER_COMMON_TRANSPORT_SOCKETS_SOCKETS_H_
#define MUSTER_COMMON_TRANSPORT_SOCKETS_SOCKETS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/transport/deadline.h"
#include "common/transport/descriptor.h"

// Sockets for data connections: none blocks, none is inherited by children.
namespace muster {

struct TcpListener {
  Descriptor socket;
  uint16_t port = 0;
};

// Ports that a listener may take; it takes the first free one. first = 0: any free port.
struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
};

// Listens on one of `ports`. InvalidArgument: `host` is unknown or a wildcard. Unavailable: `host`
// cannot be used, or none of `ports` is free.
absl::StatusOr<TcpListener> ListenTcp(const std::string& host, PortRange ports = {});
// Does the same for a listener whose host clients are not told: wildcards are fine too. Port 0
// takes a free one.
absl::StatusOr<TcpListener> ListenTcpAt(const std::string& host, uint16_t port);
absl::StatusOr<Descriptor> ListenUnix(const std::string& abstract_name);

// Connect by the deadline. Unavailable: refused, or no answer in time.
absl::StatusOr<Descriptor> ConnectTcp(const std::string& host, uint16_t port, Deadline deadline);
absl::StatusOr<Descriptor> ConnectUnix(const std::string& abstract_name, Deadline deadline);

// Returns whether the process at the other end of a unix socket has this process's user.
bool SameUser(int unix_socket);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SOCKETS_SOCKETS_H_
