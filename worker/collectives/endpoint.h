#ifndef MUSTER_WORKER_COLLECTIVES_ENDPOINT_H_
#define MUSTER_WORKER_COLLECTIVES_ENDPOINT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collectives/communicator.h"

namespace muster {

// The place where a task waits for the other tasks of its job before it knows who they are. The
// endpoint is made first; its address() travels through the coordinator's rendezvous; then Connect
// makes the group. One endpoint serves one round after another. Thread-safe.
class CollectiveEndpoint {
 public:
  virtual ~CollectiveEndpoint() = default;

  // Returns opaque bytes, at most 4 KiB, by which others reach this task.
  virtual std::string address() const = 0;

  struct Group {
    // Name in errors and the flight recorder, such as "world".
    std::string name;
    // Number of the rendezvous; the same on all ranks, never used for two groups.
    uint64_t round = 0;
    // Secret that only the members know.
    std::string secret;
    // Addresses by rank.
    std::vector<std::string> addresses;
    int rank = 0;
    // Names of the ranks in errors, by rank, such as "slot 2"; if empty, "rank 2".
    std::vector<std::string> names;
  };

  // Connects this rank to the others. Unavailable: a rank, which the error names, could not be
  // reached within `timeout`. Unauthenticated: a rank does not know the secret.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(const Group& group,
                                                                absl::Duration timeout) = 0;

  // Aborts all groups that are connected, and those split from them (Communicator::Abort): for who
  // knows that one of their ranks will never move again. Any thread; does not block.
  virtual void Abort(const std::string& reason) = 0;
};

inline constexpr int kMaxDataConnections = 16;

struct HostEndpointOptions {
  // Address to listen on for TCP, as IP or name, without a port.
  std::string host = "127.0.0.1";
  // Ports to listen on; the first free one is used. Any free port if first_port is 0.
  uint16_t first_port = 0;
  uint16_t last_port = 0;
  // Host that others call instead of `host`, at the same port; if empty, `host`.
  std::string advertised_host;
  // True if ranks on one machine use shared memory; false for TCP everywhere.
  bool shared_memory = true;
  // True if TCP connections are encrypted (TLS 1.3 with a key made from the group's secret).
  bool tls = false;
  // Number of TCP connections that carry the data of a pair of ranks without shared memory: 1 to
  // kMaxDataConnections, the same on all ranks. Several carry more if the network limits each
  // connection (clouds cap a flow; over a long distance its window does), and gain nothing
  // otherwise. Each costs its kernel buffers, and 0.6 MiB more with TLS.
  int connections = 1;
};

// Makes an endpoint whose groups use shared memory and TCP. InvalidArgument: an option makes no
// sense. Unavailable: the address cannot be listened on.
absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> MakeHostEndpoint(
    const HostEndpointOptions& options);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_ENDPOINT_H_
