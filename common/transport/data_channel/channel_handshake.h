#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_HANDSHAKE_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_HANDSHAKE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// How a client opens a data channel on a new connection, each message behind its u32 length:
//
//   client → server   hello: version, the server's nonce, what for
//   client ← server   challenge: 16 bytes
//   client → server   proof: HMAC(secret, "channel" ‖ hello ‖ challenge); for shared memory with
//                     the segment, the client's bell and what memory it registers
//   client ← server   verdict; for shared memory with the server's bell
//
// Each caller of the rpc OpenChannel is told a nonce and a secret of its own, which the server
// makes of a key that it keeps for as long as it runs: so the proof shows that the client has come
// by way of the rpc, whose credentials are therefore the channel's. It is over a challenge, so that
// nothing recorded can be replayed. A refusal in place of a challenge or verdict says why. Once the
// verdict is in, frames follow.
//
// Under TLS a TLS handshake comes in between. Its pre-shared key is ChannelTlsKey, so that each
// side proves to the other what the rpc's certificates have proved; nobody else knows the secret,
// other clients of the server neither.
namespace muster {

enum class ChannelSecurity { kPlain, kTls };

// Where a server's data channel can be reached, and how, as OpenChannel tells it.
struct ChannelAddress {
  uint32_t version = 0;
  // Of what goes over TCP. Shared memory needs none.
  ChannelSecurity security = ChannelSecurity::kPlain;
  std::string host;
  uint16_t port = 0;
  // Of an abstract unix socket; empty: no shared memory.
  std::string unix_name;
  std::string nonce;
  std::string secret;
};

struct ChannelHello {
  enum class Kind : uint8_t { kStream = 0, kSharedMemory = 1, kTls = 2 };

  uint32_t version = 0;
  std::string nonce;
  Kind kind = Kind::kStream;
  // Of shared memory: bytes of the arena, a direction, and of what the client registers; 0:
  // nothing.
  uint64_t arena_bytes = 0;
  uint64_t registered_bytes = 0;

  std::string Serialize() const;
  // InvalidArgument: something else has called. FailedPrecondition: the client's format is newer
  // than kChannelVersion, or older than this release still takes.
  static absl::StatusOr<ChannelHello> Parse(absl::string_view bytes);
};

inline constexpr size_t kMaxHelloBytes = 1024;
inline constexpr size_t kChallengeBytes = 16;
inline constexpr size_t kProofBytes = 32;

std::string ChannelProof(absl::string_view secret, absl::string_view hello,
                         absl::string_view challenge);
// 32 bytes.
std::string ChannelTlsKey(absl::string_view secret, absl::string_view hello,
                          absl::string_view challenge);

// A challenge or verdict: a status and, where it is OK, content.
std::string EncodeAnswer(const absl::Status& status, absl::string_view content = "");
// The content; the status that was sent; Unavailable: it makes no sense.
absl::StatusOr<std::string> DecodeAnswer(absl::string_view bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_HANDSHAKE_H_
