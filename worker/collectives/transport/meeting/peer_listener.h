#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_PEER_LISTENER_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_PEER_LISTENER_H_

#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/transport/deadline.h"
#include "common/transport/descriptor.h"
#include "common/transport/sockets/sockets.h"
#include "worker/collectives/transport/meeting/endpoint_address.h"
#include "worker/collectives/transport/meeting/handshake.h"

namespace muster {

struct PeerListenerOptions {
  // IP or name to listen on for TCP.
  std::string host;
  PortRange ports;
  // Under which others reach it; empty: `host`.
  std::string advertised_host;
  // Whether to listen on a unix socket as well.
  bool unix_socket = true;
};

// Where other ranks call. A thread of its own accepts connections and reads their hello; the
// connection then waits until somebody takes it by group, rank and purpose. So a caller may come
// before this rank knows of the group. One who calls for a group that has met already is refused;
// one who does not know this endpoint's nonce, or says nothing for 10 s, is dropped. At most 1,024
// connections wait. Thread-safe.
class PeerListener {
 public:
  // InvalidArgument: the host names no address of this machine, or all of them (others could not
  // call it). Unavailable: it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<PeerListener>> Create(const PeerListenerOptions& options);
  ~PeerListener();

  const EndpointAddress& address() const { return address_; }

  struct Caller {
    Descriptor socket;
    Hello hello;
    // It came through the unix socket, from a process of the same user.
    bool unix_socket = false;
  };

  // Blocks until one has called with this group, rank, kind and lane; the rest of `expected` counts
  // for nothing. Unavailable: not in time. Or the status of the deadline's interrupt.
  absl::StatusOr<Caller> Take(const Hello& expected, Deadline deadline);

  // The group has met, or will not: whoever still calls for it is refused.
  void Close(const std::string& group_key);

 private:
  struct Guest {
    Caller caller;
    // What has come of the hello, behind its length.
    std::string bytes;
    // How long it may take to say hello.
    Deadline patience = Deadline::After(absl::ZeroDuration());
    bool greeted = false;
  };

  PeerListener(EndpointAddress address, Descriptor tcp, Descriptor unix_socket, Descriptor wake);
  void Serve();
  void Accept(int listener, bool unix_socket);
  // Reads what there is of the hello; false: the guest is to go.
  bool ReadHello(Guest& guest);
  // Lets one that has said hello wait, or refuses it.
  void Seat(std::list<Guest>::iterator guest);
  void DropSilentAndGone();

  const EndpointAddress address_;
  const Descriptor tcp_;
  const Descriptor unix_socket_;
  const Descriptor wake_;

  // Those whose hello is on its way; the thread's alone.
  std::list<Guest> arriving_;

  absl::Mutex mutex_;
  // Calls of Take that wait; the thread looks after their deadlines.
  int takers_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Those who wait to be taken.
  std::list<Guest> waiting_ ABSL_GUARDED_BY(mutex_);
  // Groups that have met, the latest 256.
  std::set<std::string> closed_ ABSL_GUARDED_BY(mutex_);
  std::list<std::string> closed_order_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_PEER_LISTENER_H_
