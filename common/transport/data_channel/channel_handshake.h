#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_HANDSHAKE_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_HANDSHAKE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Messages that open a data channel on a new connection, each behind its u32 length:
//
//   client → server   hello: version, the server's nonce, kind of channel
//   client ← server   challenge: 16 bytes
//   client → server   proof: HMAC(secret, "channel" ‖ hello ‖ challenge); for shared memory with
//                     the segment, the client's bell and the memory it registers
//   client ← server   verdict; for shared memory with the server's bell
//
// OpenChannel gives each caller a nonce and a secret of its own, derived from a key that the server
// keeps as long as it runs. So the proof shows that the client came by way of the rpc, and the
// rpc's credentials are the channel's. The proof covers a challenge, so nothing recorded can be
// replayed. Challenge and verdict are answers (common/transport/answer.h); a refusal in place of
// either says why. Frames follow the verdict.
//
// Under TLS, a TLS handshake comes between verdict and frames. Its pre-shared key is ChannelTlsKey,
// so each side proves to the other what the rpc's certificates have proved; nobody else knows the
// secret, not even the server's other clients.
//
// Ranks of a group shake hands in another way (worker/collectives/transport/meeting/handshake.h):
// they share one secret that both sides have to prove, and remember nonces against replays, where a
// client here has a secret of its own and trusts the address that the rpc gave it.
namespace muster {

enum class ChannelSecurity { kPlain, kTls };

// The address of a server's data channel and how to connect to it, as OpenChannel returns it.
struct ChannelAddress {
  uint32_t version = 0;
  // Security of TCP connections; shared memory needs none.
  ChannelSecurity security = ChannelSecurity::kPlain;
  std::string host;
  uint16_t port = 0;
  // Name of an abstract unix socket; empty: no shared memory.
  std::string unix_name;
  std::string nonce;
  std::string secret;
};

struct ChannelHello {
  enum class Kind : uint8_t { kStream = 0, kSharedMemory = 1, kTls = 2 };

  uint32_t version = 0;
  std::string nonce;
  Kind kind = Kind::kStream;
  // For shared memory: bytes of the arena in each direction, and bytes that the client registers
  // (0: none).
  uint64_t arena_bytes = 0;
  uint64_t registered_bytes = 0;

  std::string Serialize() const;
  // Parses a hello. InvalidArgument: the bytes are no hello. FailedPrecondition: the client's
  // version is not kChannelVersion.
  static absl::StatusOr<ChannelHello> Parse(absl::string_view bytes);
};

inline constexpr size_t kMaxHelloBytes = 1024;
inline constexpr size_t kChallengeBytes = 16;
inline constexpr size_t kProofBytes = 32;

std::string ChannelProof(absl::string_view secret, absl::string_view hello,
                         absl::string_view challenge);
// Returns 32 bytes.
std::string ChannelTlsKey(absl::string_view secret, absl::string_view hello,
                          absl::string_view challenge);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_HANDSHAKE_H_
