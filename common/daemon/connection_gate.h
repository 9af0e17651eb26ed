#ifndef MUSTER_COMMON_DAEMON_CONNECTION_GATE_H_
#define MUSTER_COMMON_DAEMON_CONNECTION_GATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/transport/descriptor.h"

namespace muster {

// Accepts a server's TCP connections, and bounds their number. gRPC 1.51 closes its listening
// socket for good once a process has no descriptor left for one more connection (CVE-2023-4785);
// this one stays.
//
// A connection beyond the bound takes the place of another one: of the oldest that has not said
// enough to be a caller, otherwise of the one that has been silent for longest, if so long that
// nobody waits there for anything (a peer with a call under way answers gRPC's pings). If there is
// neither, the newcomer is closed. Each connection costs a second descriptor: a duplicate tells
// when it has ended, and closes the right one whatever else has got its number meanwhile.
class ConnectionGate {
 public:
  struct Options {
    size_t max_connections = 0;
    // Bytes that a caller has sent by the end of its first call at the latest.
    uint64_t caller_bytes = 0;
  };
  // Takes over a connection, a socket that does not block. Called on the gate's thread.
  using Take = std::function<void(int listener, int connection)>;

  // Listens on `address`, HOST:PORT; port 0 takes a free one, and a host that stands for all
  // addresses means those of IPv4 and IPv6. InvalidArgument: there is no such address. Unavailable:
  // it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Listen(absl::string_view address,
                                                                Options options);
  // Stops accepting. Connections that were taken over stay.
  ~ConnectionGate();

  int port() const { return port_; }

  // Begins to accept; called once.
  void Open(Take take);

 private:
  struct Connection {
    Descriptor duplicate;
    // Counts connections.
    uint64_t number = 0;
  };

  explicit ConnectionGate(Options options) : options_(options) {}

  absl::Status ListenOn(const std::string& host, uint16_t port);
  void Serve();
  // Accepts all that wait, at most a batch.
  void Accept(int listener);
  void Admit(int listener, Descriptor connection);
  // Closes a connection. Returns false if all are of callers who may wait for something.
  bool MakeRoom();
  void Forget(int duplicate);

  const Options options_;
  // Const after Listen.
  std::vector<Descriptor> listeners_;
  Descriptor events_;
  Descriptor wake_;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  // Const after Open.
  Take take_;
  // The gate's thread only; keyed by duplicate.
  std::map<int, Connection> connections_;
  uint64_t accepted_ = 0;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_CONNECTION_GATE_H_
