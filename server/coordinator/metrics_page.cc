#include "server/coordinator/metrics_page.h"

#include <sys/socket.h>

#include <cstdint>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/daemon/daemon.h"
#include "common/rpc/channel.h"
#include "httplib.h"

namespace muster {
namespace {

// One that asks and one that does not.
constexpr size_t kThreads = 2;
// For a request to arrive, and for an answer to go.
constexpr int kSeconds = 1;

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
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_keep_alive_max_count(1).set_keep_alive_timeout(kSeconds);
    server_.set_read_timeout(kSeconds).set_write_timeout(kSeconds);
    // The library's own would share a port with whoever has it.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
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
    if (bound < 0) return CannotListen(listen);
    address_ = WithPort(listen, bound);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // Until then, stop() would pass unnoticed.
    while (!server_.is_running()) std::this_thread::yield();
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }

 private:
  httplib::Server server_;
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
