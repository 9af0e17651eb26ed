#include "common/transport/sockets/socket_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "common/transport/system_error.h"

namespace muster {

absl::StatusOr<size_t> SocketStream::Write(absl::Span<const std::byte> bytes, Push push) {
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (push == Push::kLater ? MSG_MORE : 0);
  while (true) {
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), flags);
    if (sent >= 0) {
      held_back_ = push == Push::kLater;
      return static_cast<size_t>(sent);
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return SystemError("send");
  }
}

absl::Status SocketStream::Flush() {
  if (held_back_) PushTcp(socket_.get());
  held_back_ = false;
  return absl::OkStatus();
}

absl::StatusOr<size_t> SocketStream::Read(absl::Span<std::byte> out) {
  if (out.empty()) return 0;
  while (true) {
    const ssize_t got = recv(socket_.get(), out.data(), out.size(), MSG_DONTWAIT);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) return absl::UnavailableError("the other end has closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return SystemError("recv");
  }
}

void SetTcpOptions(int socket) {
  const auto set = [socket](int level, int option, int value) {
    setsockopt(socket, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 5);
}

void EndWhenUnanswered(int socket) {
  const int milliseconds = 10'000;
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds));
}

void SetLocalTcpOptions(int socket) {
  sockaddr_storage own = {}, peer = {};
  socklen_t own_length = sizeof(own), peer_length = sizeof(peer);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
      getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0 ||
      own.ss_family != peer.ss_family) {
    return;
  }
  bool local = false;
  if (own.ss_family == AF_INET) {
    local = reinterpret_cast<const sockaddr_in&>(own).sin_addr.s_addr ==
            reinterpret_cast<const sockaddr_in&>(peer).sin_addr.s_addr;
  } else if (own.ss_family == AF_INET6) {
    local =
        std::memcmp(&reinterpret_cast<const sockaddr_in6&>(own).sin6_addr,
                    &reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr, sizeof(in6_addr)) == 0;
  }
  if (!local) return;
  // The kernel doubles this.
  const int bytes = 256 << 10;
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
  setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  // The plainest algorithm, which everybody may choose; where it is missing, the default stays.
  constexpr char kReno[] = "reno";
  setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kReno, sizeof(kReno) - 1);
}

void PushTcp(int socket) {
  // Setting the option, even when it is set, sends what is held back.
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace muster
