#include "server/coordinator/metrics/metrics_page.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/channel.h"
#include "httplib.h"

namespace muster {
namespace {

// Connections served at a time.
constexpr size_t kThreads = 8;
// Time for a request to arrive and its answer to be sent.
constexpr std::chrono::seconds kPatience(2);
// Bytes of a request; a body is not read.
constexpr size_t kMaxRequestBytes = 8 << 10;

class Connection;

// The connections, and how many of them must make room for others.
class Connections {
 public:
  // Counts a connection that is to be served. If no thread is free, ends another connection.
  void Arrived();
  void Served();

  std::list<Connection>::iterator Add(socket_t socket);
  void Remove(std::list<Connection>::iterator connection);

  // Marks a connection that waits for its client. False: it must end, since others wait.
  bool BeginWait(Connection& connection);
  void EndWait(Connection& connection);

 private:
  absl::Mutex mutex_;
  // Connections being served, oldest first.
  std::list<Connection> connections_ ABSL_GUARDED_BY(mutex_);
  // Number of connections that have arrived and are not yet served to the end.
  size_t present_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of connections that must still end to make room.
  size_t owed_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One client's connection, bounded in time and size. Used by its own thread, except `waits`.
class Connection final : public httplib::Stream {
 public:
  Connection(socket_t socket, Connections& all) : socket_(socket), all_(all) {}
  ~Connection() override { close(socket_); }

  // Ends what the connection's thread waits for.
  void End() { ::shutdown(socket_, SHUT_RDWR); }
  // Guarded by Connections.
  bool waits = false;

  bool is_readable() const override { return next_ < filled_ || Await(POLLIN); }
  bool is_writable() const override { return Await(POLLOUT); }

  ssize_t read(char* bytes, size_t size) override {
    if (next_ == filled_ && !Fill()) return -1;
    const size_t taken = std::min(size, filled_ - next_);
    std::memcpy(bytes, buffer_.data() + next_, taken);
    next_ += taken;
    return static_cast<ssize_t>(taken);
  }

  ssize_t write(const char* bytes, size_t size) override {
    if (!Await(POLLOUT)) return -1;
    return send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  bool Poll(short event, std::chrono::steady_clock::duration patience) const {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
    pollfd asked = {.fd = socket_, .events = event, .revents = 0};
    return poll(&asked, 1, static_cast<int>(std::max<int64_t>(ms, 0))) == 1;
  }

  bool Await(short event) const {
    if (Poll(event, std::chrono::seconds(0))) return true;
    auto& self = const_cast<Connection&>(*this);
    if (!all_.BeginWait(self)) return false;
    const bool ready = Poll(event, until_ - std::chrono::steady_clock::now());
    all_.EndWait(self);
    return ready;
  }

  // Appends to what came before, so that the buffer bounds the whole request.
  bool Fill() {
    if (filled_ == buffer_.size() || !Await(POLLIN)) return false;
    const ssize_t got = recv(socket_, buffer_.data() + filled_, buffer_.size() - filled_, 0);
    if (got <= 0) return false;
    filled_ += static_cast<size_t>(got);
    return true;
  }

  const socket_t socket_;
  Connections& all_;
  const std::chrono::steady_clock::time_point until_ = std::chrono::steady_clock::now() + kPatience;
  std::array<char, kMaxRequestBytes> buffer_;
  size_t next_ = 0;
  size_t filled_ = 0;
};

void Connections::Arrived() {
  absl::MutexLock lock(&mutex_);
  if (++present_ <= kThreads) return;
  for (Connection& connection : connections_) {
    if (!connection.waits) continue;
    connection.waits = false;
    return connection.End();
  }
  ++owed_;
}

void Connections::Served() {
  absl::MutexLock lock(&mutex_);
  if (--present_ <= kThreads) owed_ = 0;
}

std::list<Connection>::iterator Connections::Add(socket_t socket) {
  absl::MutexLock lock(&mutex_);
  return connections_.emplace(connections_.end(), socket, *this);
}

void Connections::Remove(std::list<Connection>::iterator connection) {
  absl::MutexLock lock(&mutex_);
  connections_.erase(connection);
}

bool Connections::BeginWait(Connection& connection) {
  absl::MutexLock lock(&mutex_);
  if (owed_ > 0) {
    --owed_;
    return false;
  }
  connection.waits = true;
  return true;
}

void Connections::EndWait(Connection& connection) {
  absl::MutexLock lock(&mutex_);
  connection.waits = false;
}

// A thread pool that tells `connections` of each new connection.
class Pool final : public httplib::ThreadPool {
 public:
  explicit Pool(Connections& connections) : ThreadPool(kThreads), connections_(connections) {}

  void enqueue(std::function<void()> serve) override {
    connections_.Arrived();
    ThreadPool::enqueue([this, serve = std::move(serve)] {
      serve();
      connections_.Served();
    });
  }

 private:
  Connections& connections_;
};

class BoundedServer final : public httplib::Server {
 public:
  BoundedServer() {
    new_task_queue = [this] { return new Pool(connections_); };
  }

  // Undoes the library's limit of five connections that wait to be accepted. REQUIRES: bound.
  void WidenBacklog() { ::listen(svr_sock_, SOMAXCONN); }

 private:
  bool process_and_close_socket(socket_t socket) override {
    const auto connection = connections_.Add(socket);
    bool closed = true;
    const bool answered = process_request(*connection, true, closed, nullptr);
    connections_.Remove(connection);
    return answered;
  }

  Connections connections_;
};

httplib::Server::HandlerResponse Refuse(const httplib::Request& request,
                                        httplib::Response& response) {
  // Refused here, before a body is read.
  if (request.method != "GET") {
    response.status = 405;
    response.set_header("Allow", "GET");
    return httplib::Server::HandlerResponse::Handled;
  }
  // The text differs from call to call, so parts of it are of no use.
  if (request.has_header("Range")) {
    response.status = 416;
    return httplib::Server::HandlerResponse::Handled;
  }
  return httplib::Server::HandlerResponse::Unhandled;
}

class HttplibPage final : public MetricsPage {
 public:
  ~HttplibPage() override {
    if (!thread_.joinable()) return;
    server_.stop();
    thread_.join();
  }

  absl::Status Start(const std::string& listen, Text text) {
    const size_t colon = listen.rfind(':');
    uint32_t port = 0;
    if (colon == std::string::npos || colon == 0 ||
        !absl::SimpleAtoi(absl::string_view(listen).substr(colon + 1), &port) || port > 65535) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", listen, "\" is no address to listen on: say HOST:PORT"));
    }
    std::string host = listen.substr(0, colon);
    if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    // The library's own options would share a port with whoever has it.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    server_.set_pre_routing_handler(Refuse);
    server_.Get("/metrics", [text = std::move(text)](const auto&, httplib::Response& response) {
      if (const absl::StatusOr<std::string> page = text(); page.ok()) {
        response.set_content(*page, "text/plain; version=0.0.4");
      } else {
        response.status = 503;
        response.set_content(absl::StrCat(page.status().message(), "\n"), "text/plain");
      }
    });
    int bound = static_cast<int>(port);
    if (port == 0) {
      bound = server_.bind_to_any_port(host);
    } else if (!server_.bind_to_port(host, bound)) {
      bound = -1;
    }
    if (bound < 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", listen, ": the port may be in use, or the host not this machine"));
    }
    server_.WidenBacklog();
    address_ = WithPort(listen, bound);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // Before it runs, stop() would have no effect.
    while (!server_.is_running()) std::this_thread::yield();
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }

 private:
  BoundedServer server_;
  std::string address_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsPage>> MetricsPage::Create(const std::string& listen,
                                                                 Text text) {
  auto page = std::make_unique<HttplibPage>();
  if (absl::Status status = page->Start(listen, std::move(text)); !status.ok()) return status;
  return page;
}

}  // namespace muster
