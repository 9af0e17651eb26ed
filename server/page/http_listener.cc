#include "server/page/http_listener.h"

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "httplib.h"
#include "server/page/http_connection.h"
#include "server/page/page_tls.h"

namespace muster {
namespace {

// Enough for a description of 4 KiB (DescribeJobRequest) whose every character JSON escapes.
constexpr size_t kMaxBodyBytes = 9 << 10;

// The headers of every answer.
const httplib::Headers& SecurityHeaders() {
  static const auto& headers = *new httplib::Headers{
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"}};
  return headers;
}

// A thread pool that tells `connections` of each new connection.
class Pool final : public httplib::ThreadPool {
 public:
  explicit Pool(HttpConnections& connections)
      : ThreadPool(HttpConnections::kServed), connections_(connections) {}

  void enqueue(std::function<void()> serve) override {
    connections_.Arrived();
    ThreadPool::enqueue([this, serve = std::move(serve)] {
      serve();
      connections_.Served();
    });
  }

 private:
  HttpConnections& connections_;
};

class BoundedServer final : public httplib::Server {
 public:
  explicit BoundedServer(SslContext tls) : tls_(std::move(tls)) {
    new_task_queue = [this] { return new Pool(connections_); };
  }

  // Undoes the library's limit of five connections that wait to be accepted. REQUIRES: bound.
  void WidenBacklog() { ::listen(svr_sock_, SOMAXCONN); }
  // Ends what waits for clients.
  void EndWaits() { connections_.Close(); }

 private:
  bool process_and_close_socket(socket_t socket) override {
    const auto connection = connections_.Add(socket, tls_.get());
    bool closed = true;
    const bool answered = connection->Open() && process_request(*connection, true, closed, Prepare);
    connections_.Remove(connection);
    return answered;
  }

  // Leaves of a request's wishes those that are granted. Brotli, which the library would choose,
  // takes a hundred times as long as gzip; parts of answers that change are of no use.
  static void Prepare(httplib::Request& request) {
    const bool gzip = absl::StrContains(request.get_header_value("Accept-Encoding"), "gzip");
    for (const char* wish : {"Accept-Encoding", "Range", "Expect"}) request.headers.erase(wish);
    if (gzip) request.set_header("Accept-Encoding", "gzip");
    request.ranges.clear();
  }

  const SslContext tls_;
  HttpConnections connections_;
};

HttpRequest Read(const httplib::Request& from) {
  return {.method = from.method,
          .target = from.target,
          .headers = {from.headers.begin(), from.headers.end()},
          .body = from.body};
}

void Write(HttpAnswer answer, httplib::Response& to) {
  to.status = answer.status;
  for (const auto& [name, value] : answer.headers) to.set_header(name, value);
  if (answer.content_type.empty()) return;
  to.set_header("Content-Type", answer.content_type);
  to.body = std::move(answer.body);
}

class HttplibListener final : public HttpListener {
 public:
  HttplibListener(SslContext tls, HttpService& service)
      : server_(std::move(tls)), service_(service) {}

  ~HttplibListener() override {
    if (!thread_.joinable()) return;
    server_.stop();
    server_.EndWaits();
    thread_.join();
  }

  absl::Status Start(const std::string& listen) {
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
    Route();
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
  // Lets the service answer all: the library's own routes match by regular expressions, whose cost
  // strangers would choose.
  void Route() {
    server_.set_default_headers(SecurityHeaders());
    server_.set_payload_max_length(kMaxBodyBytes);
    server_.set_pre_routing_handler([this](const auto& request, auto& response) {
      const HttpRequest read = Read(request);
      std::optional<HttpAnswer> refusal = service_.Refuse(read);
      const bool needs_body = !refusal.has_value() && request.method == "POST";
      if (needs_body) return httplib::Server::HandlerResponse::Unhandled;
      Write(refusal.has_value() ? *std::move(refusal) : service_.Answer(read), response);
      return httplib::Server::HandlerResponse::Handled;
    });
    server_.Post(".{0,512}", [this](const auto& request, auto& response) {
      Write(service_.Answer(Read(request)), response);
    });
  }

  BoundedServer server_;
  HttpService& service_;
  std::string address_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Create(const Options& options,
                                                                   HttpService& service) {
  MUSTER_ASSIGN_OR_RETURN(SslContext tls, MakePageTls(options.tls));
  auto listener = std::make_unique<HttplibListener>(std::move(tls), service);
  MUSTER_RETURN_IF_ERROR(listener->Start(options.listen));
  return listener;
}

}  // namespace muster
