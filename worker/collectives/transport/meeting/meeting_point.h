#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_MEETING_POINT_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_MEETING_POINT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collectives/endpoint.h"
#include "worker/collectives/transport/meeting/peer_listener.h"
#include "worker/collectives/transport/mesh/host_transport.h"

namespace muster {

// Makes transports. A CollectiveEndpoint on the host adds only the Communicator on top.
//
// All pairs of a group meet at the same time. In each pair the lower rank calls the higher one,
// first at the higher rank's unix socket. If that answers, the connection becomes the control
// connection, and a memfd sent over it proves that both are on one machine: the called rank writes
// a value into the memfd, which the caller then finds there. If any of this fails, the pair uses
// TCP: one connection for control, then one or several for data (HostEndpointOptions::connections).
//
// A sub-group meets in the same way at the same endpoints, under a key and a secret derived from
// its parent's. It has rings, connections and a control thread of its own, so that neither group
// waits for the other and each may end alone.
//
// Thread-safe; may be destroyed before the transports that it made.
class MeetingPoint {
 public:
  // Returns the errors of MakeHostEndpoint.
  static absl::StatusOr<std::unique_ptr<MeetingPoint>> Create(const HostEndpointOptions& options);

  std::string address() const { return listener_->address().Serialize(); }

  // Connects the group. Errors are those of CollectiveEndpoint::Connect. InvalidArgument: the group
  // makes no sense. FailedPrecondition: a rank describes the group differently.
  absl::StatusOr<std::unique_ptr<HostTransport>> Meet(const CollectiveEndpoint::Group& group,
                                                      absl::Duration timeout);

 private:
  MeetingPoint(const HostEndpointOptions& options, std::shared_ptr<PeerListener> listener)
      : options_(options), listener_(std::move(listener)) {}

  const HostEndpointOptions options_;
  const std::shared_ptr<PeerListener> listener_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_MEETING_POINT_H_
