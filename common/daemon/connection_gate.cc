#include "common/daemon/connection_gate.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/sockets/host_of.h"
#include "common/transport/sockets/resolve_host.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

// Longest queue of connections; the system may be told to take fewer.
constexpr int kBacklog = 4096;
// Connections accepted in a row before those that ended are looked at.
constexpr int kBatch = 64;
// Pause after accept failed, for others to give descriptors back.
constexpr int kPauseMs = 20;
// A peer that acknowledges nothing for this long is gone, as for gRPC's pings.
constexpr unsigned kUserTimeoutMs = 10000;
// Silence in which a call under way would have answered a ping, which is sent every 10 s.
constexpr uint32_t kSilentMs = 15000;

int PortOf(int socket) {
  sockaddr_storage bound = {};
  socklen_t length = sizeof(bound);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

// Returns a socket listening on one address; with `both_families`, on all of IPv4's as well.
absl::StatusOr<Descriptor> ListenOnOne(const sockaddr* address, socklen_t length,
                                       bool both_families) {
  Descriptor socket(
      ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!socket.valid()) return SystemError("socket");
  const int on = 1;
  const int only_v6 = both_families ? 0 : 1;
  // A daemon that starts again takes its port over from connections that have yet to time out.
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address->sa_family == AF_INET6) {
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof(only_v6));
  }
  if (bind(socket.get(), address, length) != 0) return SystemError("bind");
  if (listen(socket.get(), kBacklog) != 0) return SystemError("listen");
  return socket;
}

void Register(int events, int descriptor, uint32_t awaited) {
  epoll_event event = {};
  event.events = awaited;
  event.data.fd = descriptor;
  epoll_ctl(events, EPOLL_CTL_ADD, descriptor, &event);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Listen(absl::string_view address,
                                                                       Options options) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is no address to listen on: say HOST:PORT"));
  }
  const std::string host = HostOf(address);
  std::unique_ptr<ConnectionGate> gate(new ConnectionGate(options));
  MUSTER_RETURN_IF_ERROR(gate->ListenOn(host, static_cast<uint16_t>(port)));
  gate->events_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  gate->wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!gate->events_.valid() || !gate->wake_.valid()) return SystemError("epoll");
  Register(gate->events_.get(), gate->wake_.get(), EPOLLIN);
  for (const Descriptor& listener : gate->listeners_) {
    Register(gate->events_.get(), listener.get(), EPOLLIN);
  }
  return gate;
}

absl::Status ConnectionGate::ListenOn(const std::string& host, uint16_t port) {
  if (host == "0.0.0.0" || host == "::") {
    sockaddr_in6 all = {};
    all.sin6_family = AF_INET6;
    all.sin6_port = htons(port);
    auto both = ListenOnOne(reinterpret_cast<const sockaddr*>(&all), sizeof(all), true);
    if (both.ok()) {
      port_ = PortOf(both->get());
      listeners_.push_back(*std::move(both));
      return absl::OkStatus();
    }
    // A system without IPv6.
  }
  MUSTER_ASSIGN_OR_RETURN(const Addresses addresses, ResolveHost(host, port));
  absl::Status failure;
  for (const addrinfo* found = addresses.get(); found != nullptr; found = found->ai_next) {
    // A host's further addresses get the port of its first one.
    sockaddr* address = found->ai_addr;
    if (port_ != 0 && port == 0) {
      (address->sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(address)->sin6_port
                                      : reinterpret_cast<sockaddr_in*>(address)->sin_port) =
          htons(static_cast<uint16_t>(port_));
    }
    auto listening = ListenOnOne(address, found->ai_addrlen, false);
    if (!listening.ok()) {
      failure.Update(listening.status());
      continue;
    }
    port_ = PortOf(listening->get());
    listeners_.push_back(*std::move(listening));
  }
  return listeners_.empty() ? failure : absl::OkStatus();
}

ConnectionGate::~ConnectionGate() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void ConnectionGate::Open(Take take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { Serve(); });
}

void ConnectionGate::Serve() {
  std::array<epoll_event, kBatch> events;
  while (!stopping_.load()) {
    const int count = epoll_wait(events_.get(), events.data(), events.size(), -1);
    // Ended connections go first, and so make room.
    for (int i = 0; i < count; ++i) Forget(events[i].data.fd);
    for (int i = 0; i < count && !stopping_.load(); ++i) {
      const int descriptor = events[i].data.fd;
      const bool listens =
          std::any_of(listeners_.begin(), listeners_.end(),
                      [descriptor](const Descriptor& l) { return l.get() == descriptor; });
      if (listens) Accept(descriptor);
    }
  }
}

void ConnectionGate::Accept(int listener) {
  for (int i = 0; i < kBatch; ++i) {
    Descriptor connection(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.valid()) {
      Admit(listener, std::move(connection));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    // There are no descriptors left; others than this gate have them.
    MakeRoom();
    poll(nullptr, 0, kPauseMs);
    return;
  }
}

void ConnectionGate::Admit(int listener, Descriptor connection) {
  if (connections_.size() >= options_.max_connections && !MakeRoom()) return;
  Descriptor duplicate(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate.valid()) return;
  const int on = 1;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(connection.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs,
             sizeof(kUserTimeoutMs));
  const int key = duplicate.get();
  connections_[key] = {.duplicate = std::move(duplicate), .number = ++accepted_};
  // epoll reports the connection's end without being asked to.
  Register(events_.get(), key, 0);
  take_(listener, connection.Release());
}

bool ConnectionGate::MakeRoom() {
  const Connection* oldest_stranger = nullptr;
  const Connection* most_silent = nullptr;
  uint32_t silence = kSilentMs;
  for (const auto& [key, connection] : connections_) {
    tcp_info info = {};
    socklen_t length = sizeof(info);
    if (getsockopt(key, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) continue;
    if (info.tcpi_bytes_received < options_.caller_bytes) {
      if (oldest_stranger == nullptr || connection.number < oldest_stranger->number) {
        oldest_stranger = &connection;
      }
    } else if (info.tcpi_last_data_recv >= silence) {
      silence = info.tcpi_last_data_recv;
      most_silent = &connection;
    }
  }
  const Connection* leaves = oldest_stranger != nullptr ? oldest_stranger : most_silent;
  if (leaves == nullptr) return false;
  const int key = leaves->duplicate.get();
  // The server sees its end, and closes its own descriptor.
  shutdown(key, SHUT_RDWR);
  Forget(key);
  return true;
}

void ConnectionGate::Forget(int duplicate) {
  const auto it = connections_.find(duplicate);
  if (it == connections_.end()) return;
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, duplicate, nullptr);
  connections_.erase(it);
}

}  // namespace muster
