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
  // Host under which others reach the listener; if empty, `host`.
  std::string advertised_host;
  // True to listen on a unix socket as well.
  bool unix_socket = true;
};

// Accepts the connections of other ranks. A thread of its own reads their hellos; a connection then
// waits until somebody takes it by group, rank and purpose. A caller may therefore come before this
// rank knows of the group. A caller for a group that has met is refused; a caller that does not
// know this endpoint's nonce, or says nothing for 10 s, is dropped. At most 1,024 wait.
// Thread-safe.
class PeerListener {
 public:
  // Starts to listen. InvalidArgument: the host names no address of this machine, or all of them
  // (others could not call it). Unavailable: the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<PeerListener>> Create(const PeerListenerOptions& options);
  ~PeerListener();

  const EndpointAddress& address() const { return address_; }

  struct Caller {
    Descriptor socket;
    Hello hello;
    // True if the call came through the unix socket, from a process of the same user.
    bool unix_socket = false;
  };

  // Blocks until a caller has this group, rank, kind and lane; the rest of `expected` is ignored.
  // Unavailable: none in time. Also returns the status of the deadline's interrupt.
  absl::StatusOr<Caller> Take(const Hello& expected, Deadline deadline);

  // Refuses further callers for the group, which has met or never will.
  void Close(const std::string& group_key);

 private:
  struct Guest {
    Caller caller;
    // The part of the hello that has come, with its length in front.
    std::string bytes;
    // Deadline for the hello.
    Deadline patience = Deadline::After(absl::ZeroDuration());
    bool greeted = false;
  };

  PeerListener(EndpointAddress address, Descriptor tcp, Descriptor unix_socket, Descriptor wake);
  void Serve();
  void Accept(int listener, bool unix_socket);
  // Reads what has come of the hello. Returns false if the guest is to be dropped.
  bool ReadHello(Guest& guest);
  // Lets a guest that has said hello wait, or refuses it.
  void Seat(std::list<Guest>::iterator guest);
  void DropSilentAndGone();

  const EndpointAddress address_;
  const Descriptor tcp_;
  const Descriptor unix_socket_;
  const Descriptor wake_;

  // Guests whose hello is on its way. Used by the thread only.
  std::list<Guest> arriving_;

  absl::Mutex mutex_;
  // Number of Take calls that wait; the thread looks after their deadlines.
  int takers_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Guests that wait to be taken.
  std::list<Guest> waiting_ ABSL_GUARDED_BY(mutex_);
  // The latest 256 groups that have met.
  std::set<std::string> closed_ ABSL_GUARDED_BY(mutex_);
  std::list<std::string> closed_order_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_PEER_LISTENER_H_
