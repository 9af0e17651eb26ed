#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_HANDSHAKE_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_HANDSHAKE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/transport/deadline.h"

// How two ranks meet on a new connection, the lower one calling:
//
//   caller → called   Hello: which group, from whom to whom, what for; nonce a; HMAC(secret,
//                     "hello" ‖ all that)
//   caller ← called   Challenge: nonce b, HMAC(secret, "called" ‖ hello ‖ b)
//   caller → called   Answer: HMAC(secret, "caller" ‖ hello ‖ b)
//   caller ← called   Verdict
//
// Each side proves that it knows the group's secret without showing it, and over values that both
// have chosen, so that nothing recorded can be replayed. The hello's proof lets the called rank
// turn away at once, and not when it has waited for an answer in vain, whoever does not know the
// secret; it alone can be recorded and shown again, for which whoever answers remembers nonces. A
// status in place of any message ends the handshake with a reason. HMAC is over SHA-256 (RFC 2104).
namespace muster {

enum class ConnectionKind : uint8_t { kControl = 0, kData = 1 };

struct Hello {
  // Of the round, or of a sub-group; 16 bytes. Tells groups apart and is no secret.
  std::string group_key;
  // Of the called endpoint's address.
  std::string endpoint_nonce;
  // The caller's; 16 bytes.
  std::string nonce;
  // HMAC over the other fields; Call makes it.
  std::string proof;
  ConnectionKind kind = ConnectionKind::kControl;
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t size = 0;
  bool tls = false;
  // Data connections of a pair, where it uses TCP.
  uint32_t connections = 1;
  // Which of them this one is, below their number; 0 for control.
  uint32_t lane = 0;

  std::string Serialize() const;
  // Without the proof.
  std::string Claims() const;
  // InvalidArgument: something else has called.
  static absl::StatusOr<Hello> Parse(absl::string_view bytes);
};

// Both block, until `deadline` at most. `socket` does not block. They return a key of 32 bytes that
// only the two sides know. Unauthenticated: the other side does not know the secret, or says so of
// this one. FailedPrecondition: the two do not agree on the group. Unavailable: no answer.
absl::StatusOr<std::string> Call(int socket, const Hello& hello, absl::string_view secret,
                                 Deadline deadline);
// The caller's hello has been read already; `expected` is what it should say, its nonce aside.
absl::StatusOr<std::string> Answer(int socket, const Hello& hello, const Hello& expected,
                                   absl::string_view secret, Deadline deadline);

// Whether the hello's proof is one; the hello may be a recorded one.
bool ProvesSecret(const Hello& hello, absl::string_view secret);

// Ends a handshake in place of an answer.
void Refuse(int socket, const absl::Status& reason);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_HANDSHAKE_H_
