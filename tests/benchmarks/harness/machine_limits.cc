#include "tests/benchmarks/harness/machine_limits.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/transport/sockets/socket_stream.h"

namespace muster {
namespace {

double GigabytesPerSecond(double bytes, absl::Duration elapsed) {
  return bytes / absl::ToDoubleSeconds(elapsed) / 1e9;
}

absl::Status SocketError(const char* what) {
  return absl::InternalError(absl::StrCat(what, " failed: ", strerror(errno)));
}

// Sends or receives all of `bytes`; false: the other end closed.
template <typename Io>
bool Transfer(Io io, char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = io(data, bytes);
    if (n <= 0) return false;
    data += n;
    bytes -= n;
  }
  return true;
}

auto Receive(int fd) {
  return [fd](char* data, size_t n) { return recv(fd, data, n, 0); };
}

auto Send(int fd) {
  return [fd](char* data, size_t n) { return send(fd, data, n, MSG_NOSIGNAL); };
}

// Both ends are the caller's to close.
struct Connection {
  int sender = -1;
  int receiver = -1;
};

absl::StatusOr<Connection> ConnectLoopback() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const absl::Cleanup close_listener = [listener] { close(listener); };
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, generic, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, generic, &length) != 0) {
    return SocketError("listening on loopback");
  }
  const int sender = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  absl::Cleanup close_sender = [sender] { close(sender); };
  if (connect(sender, generic, length) != 0) return SocketError("connecting to loopback");
  const int receiver = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (receiver < 0) return SocketError("accepting from loopback");
  std::move(close_sender).Cancel();
  return Connection{sender, receiver};
}

}  // namespace

double MemcpySpeed(size_t bytes, absl::Duration duration) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  double copied = 0;
  const absl::Time start = absl::Now();
  absl::Duration elapsed;
  do {
    std::memcpy(to.data(), from.data(), bytes);
    // Keeps the compiler from leaving copies out.
    asm volatile("" : : "r"(to.data()) : "memory");
    copied += bytes;
    elapsed = absl::Now() - start;
  } while (elapsed < duration);
  return GigabytesPerSecond(copied, elapsed);
}

absl::StatusOr<double> LoopbackSpeed(size_t bytes, absl::Duration duration,
                                     LoopbackOptions options) {
  MUSTER_ASSIGN_OR_RETURN(const Connection connection, ConnectLoopback());
  if (options == LoopbackOptions::kOfDataChannel) {
    for (const int end : {connection.sender, connection.receiver}) SetLocalTcpOptions(end);
  }
  const absl::Cleanup close_sender = [fd = connection.sender] { close(fd); };
  std::thread receiving([receiver = connection.receiver, bytes] {
    std::vector<char> buffer(bytes, 1);
    while (Transfer(Receive(receiver), buffer.data(), buffer.size())) {
    }
    close(receiver);
  });
  std::vector<char> buffer(bytes, 2);
  double sent = 0;
  absl::Duration elapsed;
  const absl::Time start = absl::Now();
  do {
    if (!Transfer(Send(connection.sender), buffer.data(), buffer.size())) break;
    sent += bytes;
    elapsed = absl::Now() - start;
  } while (elapsed < duration);
  shutdown(connection.sender, SHUT_WR);
  receiving.join();
  return GigabytesPerSecond(sent, absl::Now() - start);
}

double RingSpeed(size_t bytes, absl::Duration duration) {
  constexpr size_t kRing = 2 << 20, kStep = 256 << 10;
  std::vector<char> ring(kRing, 1), from(bytes, 2), to(bytes, 3);
  std::atomic<uint64_t> written{0}, taken{0};
  std::atomic<bool> stop{false};
  std::thread taking([&] {
    uint64_t at = 0;
    while (true) {
      const uint64_t until = written.load(std::memory_order_acquire);
      if (until == at) {
        if (stop.load(std::memory_order_acquire) && written.load() == at) return;
        std::this_thread::yield();
        continue;
      }
      const size_t length = std::min({until - at, kStep, kRing - at % kRing, bytes - at % bytes});
      std::memcpy(to.data() + at % bytes, ring.data() + at % kRing, length);
      at += length;
      taken.store(at, std::memory_order_release);
    }
  });
  uint64_t at = 0;
  const absl::Time start = absl::Now();
  while (absl::Now() - start < duration) {
    const uint64_t room = kRing - (at - taken.load(std::memory_order_acquire));
    if (room == 0) {
      std::this_thread::yield();
      continue;
    }
    const size_t length = std::min({room, kStep, kRing - at % kRing, bytes - at % bytes});
    std::memcpy(ring.data() + at % kRing, from.data() + at % bytes, length);
    at += length;
    written.store(at, std::memory_order_release);
  }
  stop.store(true, std::memory_order_release);
  taking.join();
  return GigabytesPerSecond(static_cast<double>(at), absl::Now() - start);
}

absl::StatusOr<double> LogPatternSpeed(const std::string& folder, size_t bytes,
                                       absl::Duration duration) {
  constexpr size_t kFile = 64 << 20;
  const std::string path = folder + "/log_pattern";
  const auto error = [&path] {
    return absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
  };
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return error();
  const absl::Cleanup remove = [fd, &path] {
    close(fd);
    unlink(path.c_str());
  };
  const std::vector<char> data(std::min(bytes, kFile), 7);
  for (size_t at = 0; at + data.size() <= kFile; at += data.size()) {
    if (pwrite(fd, data.data(), data.size(), at) != static_cast<ssize_t>(data.size())) {
      return error();
    }
  }
  if (fdatasync(fd) != 0) return error();
  double written = 0;
  size_t at = 0;
  const absl::Time start = absl::Now();
  while (absl::Now() - start < duration) {
    if (at + data.size() > kFile) at = 0;
    if (pwrite(fd, data.data(), data.size(), at) != static_cast<ssize_t>(data.size()) ||
        fdatasync(fd) != 0) {
      return error();
    }
    at += data.size();
    written += data.size();
  }
  return GigabytesPerSecond(written, absl::Now() - start);
}

absl::StatusOr<std::vector<double>> LoopbackPingPong(size_t bytes, int round_trips) {
  MUSTER_ASSIGN_OR_RETURN(const Connection connection, ConnectLoopback());
  for (const int fd : {connection.sender, connection.receiver}) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  std::thread answering([fd = connection.receiver, bytes] {
    std::vector<char> buffer(bytes, 1);
    while (Transfer(Receive(fd), buffer.data(), bytes) &&
           Transfer(Send(fd), buffer.data(), bytes)) {
    }
    close(fd);
  });
  std::vector<char> buffer(bytes, 2);
  std::vector<double> halves;
  for (int i = 0; i < round_trips; ++i) {
    const absl::Time start = absl::Now();
    if (!Transfer(Send(connection.sender), buffer.data(), bytes) ||
        !Transfer(Receive(connection.sender), buffer.data(), bytes)) {
      break;
    }
    halves.push_back(absl::ToDoubleMicroseconds(absl::Now() - start) / 2);
  }
  close(connection.sender);
  answering.join();
  if (halves.size() != static_cast<size_t>(round_trips)) {
    return absl::InternalError("a connection on loopback broke");
  }
  return halves;
}

}  // namespace muster
