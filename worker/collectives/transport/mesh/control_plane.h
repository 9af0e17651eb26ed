#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_CONTROL_PLANE_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_CONTROL_PLANE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/transport/deadline.h"
#include "common/transport/descriptor.h"
#include "worker/collectives/transport/mesh/control_stream.h"
#include "worker/collectives/transport/pipes/doorbell.h"
#include "worker/collectives/transport/pipes/group_health.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

struct ControlPeer {
  // Name in errors, such as "rank 2 (pid 1234)".
  std::string name;
  // Control connection; null for this rank itself.
  std::unique_ptr<ControlStream> stream;
  // The peer's page of shared memory; null if there is none.
  const Doorbell* bell = nullptr;
};

// A rank's control connections to all others, served by one thread whatever the rank's own thread
// does. A connection that ends without a goodbye means a death, which the group's health shows at
// once. Carries aborts, surveys and memory to share. Thread-safe.
class ControlPlane {
 public:
  // Serves `peers`, listed by rank. This rank's own `bell` and `health` must outlive this object.
  static absl::StatusOr<std::unique_ptr<ControlPlane>> Create(int rank,
                                                              std::vector<ControlPeer> peers,
                                                              const Doorbell& bell,
                                                              GroupHealth& health);
  // Says goodbye to all peers; takes at most 200 ms.
  ~ControlPlane();

  // Tells all others of an abort; the first call counts.
  void Abort(const absl::Status& reason);

  std::vector<RankState> Survey(absl::Duration grace);

  // Sends memory number `id` to the peer. REQUIRES: the peer is reached through a unix socket.
  void SendMemory(int peer, uint64_t id, size_t bytes, Descriptor descriptor);
  struct Memory {
    size_t bytes = 0;
    Descriptor descriptor;
  };
  // Blocks until the peer has sent memory number `id`. Unavailable: not in time, or the peer has
  // left. If the group has failed, returns its status.
  absl::StatusOr<Memory> TakeMemory(int peer, uint64_t id, Deadline deadline);

 private:
  struct PeerState {
    std::vector<ControlMessage> outbox;
    bool gone = false;
    bool left = false;
    // The last survey that the peer has answered, and its answer.
    uint64_t answered = 0;
    CallState call;
    std::map<uint64_t, Memory> memory;
  };

  ControlPlane(int rank, std::vector<ControlPeer> peers, const Doorbell& bell, GroupHealth& health,
               Descriptor epoll, Descriptor wake);
  void Serve();
  void ReceiveFrom(int peer);
  void SendTo(int peer);
  void Handle(int peer, ControlMessage message);
  void Lost(int peer);
  // Returns true if everything has been sent. Used by the thread only.
  bool AllSent();
  void Queue(int peer, ControlKind kind, std::string body, Descriptor descriptor = Descriptor())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CallState LastCallLocked(int peer) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const int rank_;
  // The streams are used by the thread only.
  const std::vector<ControlPeer> peers_;
  const Doorbell& bell_;
  GroupHealth& health_;
  const Descriptor epoll_;
  const Descriptor wake_;

  absl::Mutex mutex_;
  std::vector<PeerState> states_ ABSL_GUARDED_BY(mutex_);
  uint64_t surveys_ ABSL_GUARDED_BY(mutex_) = 0;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  // Deadline for the goodbyes, set once this rank leaves.
  absl::optional<Deadline> closing_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_CONTROL_PLANE_H_
