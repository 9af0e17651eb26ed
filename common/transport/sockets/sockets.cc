#include "common/transport/sockets/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/transport/sockets/blocking_frames.h"
#include "common/transport/sockets/resolve_host.h"
#include "common/transport/sockets/socket_stream.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

constexpr int kBacklog = 1024;

bool IsWildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

struct UnixAddress {
  sockaddr_un address = {};
  socklen_t length = 0;
};

UnixAddress AbstractAddress(const std::string& name) {
  UnixAddress result;
  result.address.sun_family = AF_UNIX;
  // A leading zero makes it abstract: no file, gone with its owner.
  const size_t length = std::min(name.size(), sizeof(result.address.sun_path) - 1);
  std::memcpy(result.address.sun_path + 1, name.data(), length);
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return result;
}

absl::Status FinishConnect(int socket, Deadline deadline) {
  MUSTER_RETURN_IF_ERROR(AwaitSocket(socket, POLLOUT, deadline));
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 ? absl::OkStatus() : SystemError("connect", error);
}

}  // namespace

absl::StatusOr<TcpListener> ListenTcp(const std::string& host, PortRange ports) {
  MUSTER_ASSIGN_OR_RETURN(const Addresses addresses, ResolveHost(host, 0));
  if (IsWildcard(addresses->ai_addr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("host '", host,
                     "' stands for all addresses, so that others could not be told where to call; "
                     "give one address of this machine that they can reach"));
  }
  if (ports.first == 0) return ListenTcpAt(host, 0);
  absl::Status failure;
  for (int port = ports.first; port <= ports.last; ++port) {
    absl::StatusOr<TcpListener> listener = ListenTcpAt(host, static_cast<uint16_t>(port));
    if (listener.ok()) return listener;
    failure = listener.status();
  }
  return absl::UnavailableError(absl::StrCat("no port from ", ports.first, " to ", ports.last,
                                             " can be listened on: ", failure.message()));
}

absl::StatusOr<TcpListener> ListenTcpAt(const std::string& host, uint16_t port) {
  MUSTER_ASSIGN_OR_RETURN(const Addresses addresses, ResolveHost(host, port));
  const addrinfo& address = *addresses;
  TcpListener listener;
  listener.socket =
      Descriptor(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage bound = {};
  socklen_t length = sizeof(bound);
  const int on = 1;
  // A server that starts again takes its port over from connections that have yet to time out.
  if (listener.socket.valid() && port != 0) {
    setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (!listener.socket.valid() ||
      bind(listener.socket.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(listener.socket.get(), kBacklog) != 0 ||
      getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return SystemError(absl::StrCat("listen on ", host, ":", port));
  }
  listener.port =
      ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                        : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return listener;
}

absl::StatusOr<Descriptor> ListenUnix(const std::string& abstract_name) {
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const UnixAddress address = AbstractAddress(abstract_name);
  if (!listener.valid() ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.address), address.length) !=
          0 ||
      listen(listener.get(), kBacklog) != 0) {
    return SystemError("listen on a unix socket");
  }
  return listener;
}

absl::StatusOr<Descriptor> ConnectTcp(const std::string& host, uint16_t port, Deadline deadline) {
  const std::string target = absl::StrCat("connect to ", host, ":", port);
  absl::StatusOr<Addresses> addresses = ResolveHost(host, port);
  if (!addresses.ok()) {
    return absl::UnavailableError(absl::StrCat(target, ": ", addresses.status().message()));
  }
  absl::Status failure;
  for (const addrinfo* address = addresses->get(); address != nullptr; address = address->ai_next) {
    Descriptor connection(
        socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!connection.valid()) return SystemError("socket");
    failure = absl::OkStatus();
    if (connect(connection.get(), address->ai_addr, address->ai_addrlen) != 0) {
      failure =
          errno == EINPROGRESS ? FinishConnect(connection.get(), deadline) : SystemError("connect");
    }
    if (failure.ok()) {
      SetTcpOptions(connection.get());
      return connection;
    }
  }
  return absl::UnavailableError(absl::StrCat(target, ": ", failure.message()));
}

absl::StatusOr<Descriptor> ConnectUnix(const std::string& abstract_name, Deadline deadline) {
  const UnixAddress address = AbstractAddress(abstract_name);
  Descriptor connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!connection.valid()) return SystemError("socket");
  // Blocks while the listener's queue is full; this bounds it.
  while (true) {
    const timeval limit = absl::ToTimeval(deadline.nap());
    setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address.address),
                address.length) == 0) {
      return connection;
    }
    const int error = errno;
    if (error != EINTR && error != EAGAIN) return SystemError("connect to a unix socket", error);
    MUSTER_RETURN_IF_ERROR(deadline.status());
  }
}

bool SameUser(int unix_socket) {
  ucred credentials = {};
  socklen_t length = sizeof(credentials);
  return getsockopt(unix_socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 &&
         credentials.uid == geteuid();
}

}  // namespace muster
