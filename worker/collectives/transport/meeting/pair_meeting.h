#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_PAIR_MEETING_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_PAIR_MEETING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/deadline.h"
#include "worker/collectives/transport/meeting/endpoint_address.h"
#include "worker/collectives/transport/meeting/peer_listener.h"
#include "worker/collectives/transport/mesh/host_transport.h"
#include "worker/collectives/transport/pipes/doorbell.h"

namespace muster {

// A group that meets, as one rank knows it.
struct MeetingGroup {
  // Key that tells groups apart, 16 bytes.
  std::string key;
  std::string secret;
  int rank = 0;
  std::vector<EndpointAddress> addresses;
  // Names of the ranks in errors, such as "rank 2 (pid 1234)".
  std::vector<std::string> names;
  bool shared_memory = true;
  bool tls = false;
  // Number of data connections of a pair that uses TCP.
  int connections = 1;
};

// Connects to one other rank of the group; blocks. Thread-safe: all pairs meet at the same time.
// `bell` is this rank's own, which the peer gets if memory is shared. Errors are those of
// MeetingPoint::Meet, without the peer's name.
absl::StatusOr<PeerLink> MeetPeer(const MeetingGroup& group, int peer, PeerListener& listener,
                                  const Doorbell& bell, Deadline deadline);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_PAIR_MEETING_H_
