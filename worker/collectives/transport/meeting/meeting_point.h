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

// Makes transports: what a CollectiveEndpoint on the host is, less the Communicator on top.
//
// All pairs of a group meet at the same time. In each the lower rank calls the higher one: first at
// its unix socket. If that is there, the connection itself becomes the control connection, and a
// memfd that goes over it proves that the two are on one machine; the called rank writes a value
// into it that the caller then finds there. If any of this does not work, the pair uses TCP: one
// connection for control, then one or several for data (HostEndpointOptions::connections).
//
// A sub-group meets anew in the same way, at the same endpoints, under a key and a secret that are
// derived from its parent's: it has rings, connections and a control thread of its own, so that
// neither group waits for the other and each may end alone.
//
// Thread-safe; may go before the transports that it made.
class MeetingPoint {
 public:
  // Errors as of MakeHostEndpoint.
  static absl::StatusOr<std::unique_ptr<MeetingPoint>> Create(const HostEndpointOptions& options);

  std::string address() const { return listener_->address().Serialize(); }

  // Errors as of CollectiveEndpoint::Connect; InvalidArgument: the group makes no sense;
  // FailedPrecondition: a rank joins with another idea of the group.
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
