#include "worker/runtime/program/program_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// Time between looks for an end while there are too many connections to accept more.
constexpr int kLookMs = 50;

bool WriteAll(int connection, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramSocket>> ProgramSocket::Listen(
    const std::string& path, std::function<std::string(absl::string_view line)> answer) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("the path ", path, " of a task's socket has ",
                                                   path.size(), " bytes; at most ",
                                                   sizeof(address.sun_path) - 1, " can be"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 ||
      bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, SOMAXCONN) != 0) {
    const int error = errno;
    if (listener >= 0) close(listener);
    return absl::InternalError(
        absl::StrCat("listen on the socket ", path, ": ", std::strerror(error)));
  }
  return std::unique_ptr<ProgramSocket>(new ProgramSocket(listener, std::move(answer)));
}

ProgramSocket::ProgramSocket(int listener, std::function<std::string(absl::string_view)> answer)
    : listener_(listener), answer_(std::move(answer)), acceptor_([this] { Accept(); }) {}

ProgramSocket::~ProgramSocket() {
  std::map<int, std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    shutdown(listener_, SHUT_RDWR);
    for (const auto& [connection, thread] : serving_) shutdown(connection, SHUT_RDWR);
  }
  acceptor_.join();
  {
    absl::MutexLock lock(&mutex_);
    // Serve moves its thread to `ended_` while this waits.
    mutex_.Await(absl::Condition(
        +[](std::map<int, std::thread>* serving) { return serving->empty(); }, &serving_));
  }
  JoinEnded();
  close(listener_);
}

void ProgramSocket::JoinEnded() {
  std::map<int, std::thread> ended;
  {
    absl::MutexLock lock(&mutex_);
    ended.swap(ended_);
  }
  for (auto& [connection, thread] : ended) {
    thread.join();
    close(connection);
  }
}

void ProgramSocket::Accept() {
  while (true) {
    JoinEnded();
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      if (serving_.size() >= kMostConnections) {
        mutex_.AwaitWithTimeout(absl::Condition(&stopping_), absl::Milliseconds(kLookMs));
        continue;
      }
    }
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    absl::MutexLock lock(&mutex_);
    if (connection < 0) {
      // Out of descriptors, say. A listener that was shut down ends the loop above.
      mutex_.AwaitWithTimeout(absl::Condition(&stopping_), absl::Milliseconds(kLookMs));
      continue;
    }
    if (stopping_) {
      close(connection);
      return;
    }
    serving_[connection] = std::thread([this, connection] { Serve(connection); });
  }
}

void ProgramSocket::Serve(int connection) {
  std::string unread;
  std::vector<char> buffer(1 << 16);
  bool goes_on = true;
  while (goes_on) {
    const size_t line_end = unread.find('\n');
    if (line_end != std::string::npos) {
      const std::string line = unread.substr(0, line_end);
      unread.erase(0, line_end + 1);
      goes_on = WriteAll(connection, absl::StrCat(answer_(line), "\n"));
      continue;
    }
    if (unread.size() > kMostLineBytes) break;
    const ssize_t got = recv(connection, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    goes_on = got > 0;
    if (goes_on) unread.append(buffer.data(), static_cast<size_t>(got));
  }
  shutdown(connection, SHUT_RDWR);
  absl::MutexLock lock(&mutex_);
  // The descriptor stays taken until the thread is joined.
  ended_.insert(serving_.extract(connection));
}

}  // namespace muster
