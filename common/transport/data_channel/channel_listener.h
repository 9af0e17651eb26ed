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
  // To listen on for TCP; may stand for all addresses. Port 0 takes a free one.
  std::string host;
  uint16_t port = 0;
  // Host to tell clients; empty: they use the one under which they reached the server.
  std::string advertised_host;
  SharedMemory shared_memory = SharedMemory::kOffered;
  // kTls: what goes over TCP is encrypted, and who would have it plain is refused.
  ChannelSecurity security = ChannelSecurity::kPlain;
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
    // Under TLS others may be asked for before the channel is there.
    std::function<absl::Status()> admit;
    std::function<void(std::unique_ptr<ChannelStream> stream)> stream;
    std::function<void(SharedLink link)> shared_memory;
  };

  // InvalidArgument: the host names no address of this machine. Unavailable: the port is taken.
  static absl::StatusOr<std::unique_ptr<ChannelListener>> Create(
      const ChannelListenerOptions& options, Sinks sinks);
  ~ChannelListener();

  // What to tell a client that came by the rpc, and nobody else: its secret is one. Thread-safe.
  ChannelAddress Invite() const;

 private:
  struct Guest {
    Descriptor socket;
    bool is_unix = false;
    // On the monotonic clock.
    absl::Duration arrived;
    // What has come of the message that is awaited, behind its length.
    std::string bytes;
    std::vector<Descriptor> descriptors;
    // Empty: the hello is awaited. Otherwise the proof.
    std::string challenge;
    std::string hello_bytes;
    ChannelHello hello;
    // Admitted, and in TLS's handshake; has the socket.
    std::unique_ptr<TlsStream> tls;
    short awaited_events = POLLIN;

    int descriptor() const { return tls != nullptr ? tls->descriptor() : socket.get(); }
  };

  ChannelListener(const ChannelListenerOptions& options, Sinks sinks);
  void Serve();
  void Accept(int listener, bool is_unix);
  // Reads what there is. False: the guest is to go.
  bool Hear(Guest& guest);
  bool Challenge(Guest& guest);
  // False: the guest is to go; it has become a channel, or is refused.
  bool Admit(Guest& guest);
  absl::Status AdmitStream(Guest& guest, absl::string_view secret);
  bool ShakeHands(Guest& guest);
  absl::Status AdmitSharedMemory(Guest& guest);
  void Refuse(Guest& guest, const absl::Status& reason);

  const ChannelListenerOptions options_;
  const Sinks sinks_;
  // What all invitations have in common; its secret is the key that theirs are made of. Const after
  // Create.
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

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_LISTENER_H_
