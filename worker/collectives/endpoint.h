#ifndef MUSTER_WORKER_COLLECTIVES_ENDPOINT_H_
#define MUSTER_WORKER_COLLECTIVES_ENDPOINT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collectives/communicator.h"

namespace muster {

// Where a task waits for the other tasks of its job, before it knows who they are: made first, its
// address() travels through the coordinator's rendezvous, then Connect makes the group. One
// endpoint serves one round after another. Thread-safe.
class CollectiveEndpoint {
 public:
  virtual ~CollectiveEndpoint() = default;

  // How others reach this task; opaque bytes, at most 4 KiB.
  virtual std::string address() const = 0;

  struct Group {
    // Such as "world": for errors and the flight recorder.
    std::string name;
    // Of the rendezvous; the same on all ranks, never used for two groups.
    uint64_t round = 0;
    // Known to the members alone.
    std::string secret;
    // By rank.
    std::vector<std::string> addresses;
    int rank = 0;
    // What errors call the ranks, by rank, such as "slot 2"; empty: "rank 2".
    std::vector<std::string> names;
  };

  // Meets the others. Unavailable: one could not be reached within `timeout` (names it).
  // Unauthenticated: one does not know the secret.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(const Group& group,
                                                                absl::Duration timeout) = 0;
};

inline constexpr int kMaxDataConnections = 16;

struct HostEndpointOptions {
  // Address to listen on for TCP, as IP or name, without a port.
  std::string host = "127.0.0.1";
  // Ports to listen on, the first free one of them; first_port = 0: any free port.
  uint16_t first_port = 0;
  uint16_t last_port = 0;
  // What others are told to call in place of `host`, at the same port; empty: `host`.
  std::string advertised_host;
  // Whether ranks on one machine use shared memory; without it, TCP everywhere.
  bool shared_memory = true;
  // Whether TCP connections are encrypted (TLS 1.3 with a key made from the group's secret).
  bool tls = false;
  // TCP connections over which a pair of ranks without shared memory moves its data, 1 to
  // kMaxDataConnections; all ranks alike. Several carry more where the network limits each (clouds
  // cap a flow; over a long way its window does), and gain nothing elsewhere. Each costs its
  // buffers in the kernel, and with TLS 0.6 MiB more.
  int connections = 1;
};

// Groups over shared memory and TCP. InvalidArgument: an option makes no sense. Unavailable: the
// address cannot be listened on.
absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> MakeHostEndpoint(
    const HostEndpointOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_ENDPOINT_H_
