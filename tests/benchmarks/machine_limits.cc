#include "tests/benchmarks/machine_limits.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

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

absl::StatusOr<double> LoopbackSpeed(size_t bytes, absl::Duration duration) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int sender = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const absl::Cleanup close_both = [=] {
    close(listener);
    close(sender);
  };
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, generic, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, generic, &length) != 0) {
    return SocketError("listening on loopback");
  }
  if (connect(sender, generic, length) != 0) return SocketError("connecting to loopback");
  const int receiver = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (receiver < 0) return SocketError("accepting from loopback");
  std::thread receiving([receiver, bytes] {
    std::vector<char> buffer(bytes, 1);
    const auto io = [receiver](char* data, size_t n) { return recv(receiver, data, n, 0); };
    while (Transfer(io, buffer.data(), buffer.size())) {
    }
    close(receiver);
  });
  std::vector<char> buffer(bytes, 2);
  const auto io = [sender](char* data, size_t n) { return send(sender, data, n, MSG_NOSIGNAL); };
  double sent = 0;
  absl::Duration elapsed;
  const absl::Time start = absl::Now();
  do {
    if (!Transfer(io, buffer.data(), buffer.size())) break;
    sent += bytes;
    elapsed = absl::Now() - start;
  } while (elapsed < duration);
  shutdown(sender, SHUT_WR);
  receiving.join();
  return GigabytesPerSecond(sent, absl::Now() - start);
}

}  // namespace muster
