#ifndef MUSTER_COMMON_EXAMINATION_LINK_PROBE_H_
#define MUSTER_COMMON_EXAMINATION_LINK_PROBE_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/transport/deadline.h"
#include "common/transport/descriptor.h"

// Measures the way from one daemon to another over a TCP connection of its own. The one that
// connects sends a hash of the examination's secret and then single bytes, each of which comes
// back; then it sends for a quarter of a second at most, and is told how many bytes arrived.
// Nothing else travels, so the connection is plain also where the cluster has certificates: the
// secret opens nothing but this measurement, and is of no use once the examination is over.
namespace muster {

namespace v1 {
class LinkFacts;
}  // namespace v1

struct LinkListenerOptions {
  // Address of this machine to listen on, and ports; first_port 0 stands for any free port.
  std::string host;
  uint16_t first_port = 0;
  uint16_t last_port = 0;
  // Host that others call; empty: `host`.
  std::string advertised_host;
  // Others must know it.
  std::string secret;
};

// Takes part in others' measurements while it lives. Thread-safe.
class LinkListener {
 public:
  // InvalidArgument, Unavailable: cannot listen there.
  static absl::StatusOr<std::unique_ptr<LinkListener>> Create(const LinkListenerOptions& options);
  // Ends all connections.
  ~LinkListener();

  LinkListener(const LinkListener&) = delete;
  LinkListener& operator=(const LinkListener&) = delete;

  const std::string& host() const { return host_; }
  uint16_t port() const { return port_; }

 private:
  // Ends waits once the listener is being destroyed.
  class Stop final : public Interrupt {
   public:
    absl::Status status() const override;
    std::atomic<bool> stopping = false;
  };
  struct Connection {
    std::thread thread;
    std::atomic<bool> done = false;
  };

  LinkListener(Descriptor socket, uint16_t port, const LinkListenerOptions& options);

  void Accept();
  absl::Status Serve(int socket) const;

  const Descriptor socket_;
  const uint16_t port_;
  const std::string host_;
  const std::string secret_;
  Stop stop_;
  // The accepting thread's alone, until that is joined.
  std::list<Connection> connections_;
  std::thread thread_;
};

// Measures the way to a listener at `host` and `port`. Sets the facts' `probe_address` and either
// the figures or `probe_error`. Blocks; `interrupt` ends it early.
void MeasureLink(const std::string& host, uint16_t port, absl::string_view secret,
                 const Interrupt& interrupt, v1::LinkFacts& facts);

}  // namespace muster

#endif  // MUSTER_COMMON_EXAMINATION_LINK_PROBE_H_
