#ifndef MUSTER_COMMON_TRANSPORT_CHANNEL_LISTENER_H_
#define MUSTER_COMMON_TRANSPORT_CHANNEL_LISTENER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/channel_handshake.h"
#include "common/transport/descriptor.h"
#include "common/transport/shared_channel.h"
#include "common/transport/shared_segment.h"

namespace muster {

enum class SharedMemory { kOffered, kNotOffered };

struct ChannelListenerOptions {
  // To listen on for TCP; may stand for all addresses. Port 0 takes a free one.
  std::string host;
  uint16_t port = 0;
  // Host to tell clients; empty: they use the one under which they reached the server.
  std::string advertised_host;
  SharedMemory shared_memory = SharedMemory::kOffered;
  // Longest arena, a direction, that a client may hand over.
  size_t max_arena_bytes = kDefaultArenaBytes;
  // How long a caller may take over its handshake.
  absl::Duration patience = absl::Seconds(5);
};

// Where clients open data channels. A thread of its own, which sleeps while nobody calls, shakes
// hands with all callers at the same time; none can keep another waiting. At most 256 callers are
// in their handshake: a further one takes the place of the oldest.
class ChannelListener {
 public:
  // What a client has proved its right to. Called on the listener's thread; must not block.
  struct Sinks {
    // May be left out. Asked before the verdict: an error is what the client is told in its place.
    std::function<absl::Status()> admit;
    std::function<void(Descriptor socket)> stream;
    std::function<void(SharedLink link)> shared_memory;
  };

  // InvalidArgument: the host names no address of this machine. Unavailable: the port is taken.
  static absl::StatusOr<std::unique_ptr<ChannelListener>> Create(
      const ChannelListenerOptions& options, Sinks sinks);
  ~ChannelListener();

  // What to tell a client that came by the rpc. Its secret is one.
  const ChannelAddress& address() const { return address_; }

 private:
  struct Guest {
    Descriptor socket;
    bool is_unix = false;
    absl::Time arrived;
    // What has come of the message that is awaited, behind its length.
    std::string bytes;
    std::vector<Descriptor> descriptors;
    // Empty: the hello is awaited. Otherwise the proof.
    std::string challenge;
    std::string hello_bytes;
    ChannelHello hello;
  };

  ChannelListener(const ChannelListenerOptions& options, Sinks sinks);
  void Serve();
  void Accept(int listener, bool is_unix);
  // Reads what there is. False: the guest is to go.
  bool Hear(Guest& guest);
  bool Challenge(Guest& guest);
  // The guest goes in any case: it has become a channel, or is refused.
  void Admit(Guest& guest);
  absl::Status AdmitStream(Guest& guest);
  absl::Status AdmitSharedMemory(Guest& guest);
  void Refuse(Guest& guest, const absl::Status& reason);

  const ChannelListenerOptions options_;
  const Sinks sinks_;
  ChannelAddress address_;
  Descriptor tcp_;
  Descriptor unix_socket_;
  Descriptor wake_;
  std::atomic<bool> stopping_{false};
  // The thread's alone.
  std::list<Guest> guests_;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_CHANNEL_LISTENER_H_
