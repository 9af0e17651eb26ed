#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_LISTENER_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_LISTENER_H_

#include <poll.h>

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
#include "common/transport/data_channel/channel_handshake.h"
#include "common/transport/data_channel/channel_stream.h"
#include "common/transport/data_channel/shared_channel.h"
#include "common/transport/descriptor.h"
#include "common/transport/shared_memory/shared_segment.h"
#include "common/transport/tls/tls_stream.h"

namespace muster {

enum class SharedMemory { kOffered, kNotOffered };

struct ChannelListenerOptions {
  // Host to listen on for TCP; may stand for all addresses. Port 0 takes a free one.
  std::string host;
  uint16_t port = 0;
  // Host to tell clients; empty: they use the one under which they reached the server.
  std::string advertised_host;
  SharedMemory shared_memory = SharedMemory::kOffered;
  // kTls: connections over TCP are encrypted, and a client that asks for a plain one is refused.
  ChannelSecurity security = ChannelSecurity::kPlain;
  // Longest arena per direction that a client may hand over.
  size_t max_arena_bytes = kDefaultArenaBytes;
  // Longest time that a caller's handshake may take.
  absl::Duration patience = absl::Seconds(5);
};

// Accepts the clients that open data channels. Its own thread, which sleeps while nobody calls,
// serves all handshakes at the same time, so that no caller keeps another waiting. At most 256
// callers are in their handshake: one more displaces the oldest.
class ChannelListener {
 public:
  // Take connections that have proved their right. Called on the listener's thread; must not block.
  struct Sinks {
    // Optional. Called before the verdict: an error becomes the client's answer. Under TLS, further
    // clients may be admitted before this one's channel exists.
    std::function<absl::Status()> admit;
    std::function<void(std::unique_ptr<ChannelStream> stream)> stream;
    std::function<void(SharedLink link)> shared_memory;
  };

  // Listens. InvalidArgument: the host is no address of this machine. Unavailable: a taken port.
  static absl::StatusOr<std::unique_ptr<ChannelListener>> Create(
      const ChannelListenerOptions& options, Sinks sinks);
  ~ChannelListener();

  // Returns an address, with a secret of its own, for one client that came by the rpc. Thread-safe.
  ChannelAddress Invite() const;

 private:
  struct Guest {
    Descriptor socket;
    bool is_unix = false;
    // Arrival on the monotonic clock.
    absl::Duration arrived;
    // The received part of the awaited message, with its length in front.
    std::string bytes;
    std::vector<Descriptor> descriptors;
    // Empty while the hello is awaited, set while the proof is.
    std::string challenge;
    std::string hello_bytes;
    ChannelHello hello;
    // Set during the TLS handshake, after admission; owns the socket.
    std::unique_ptr<TlsStream> tls;
    short awaited_events = POLLIN;

    int descriptor() const { return tls != nullptr ? tls->descriptor() : socket.get(); }
  };

  ChannelListener(const ChannelListenerOptions& options, Sinks sinks);
  void Serve();
  void Accept(int listener, bool is_unix);
  // Reads what there is. Returns false if the guest is to go.
  bool Hear(Guest& guest);
  bool Challenge(Guest& guest);
  // Returns false if the guest is to go: it has become a channel or was refused.
  bool Admit(Guest& guest);
  absl::Status AdmitStream(Guest& guest, absl::string_view secret);
  bool ShakeHands(Guest& guest);
  absl::Status AdmitSharedMemory(Guest& guest);
  void Refuse(Guest& guest, const absl::Status& reason);

  const ChannelListenerOptions options_;
  const Sinks sinks_;
  // The common part of all invitations; its secret is the key that theirs are derived from. Const
  // after Create.
  ChannelAddress address_;
  Descriptor tcp_;
  Descriptor unix_socket_;
  Descriptor wake_;
  std::atomic<bool> stopping_{false};
  // The listener's thread only.
  std::list<Guest> guests_;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_LISTENER_H_
