#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_HANDSHAKE_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_HANDSHAKE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/transport/deadline.h"

// The handshake of two ranks on a new connection, in which the lower rank calls:
//
//   caller → called   Hello: which group, from whom to whom, what for; nonce a; HMAC(secret,
//                     "hello" ‖ all that)
//   caller ← called   Challenge: nonce b, HMAC(secret, "called" ‖ hello ‖ b)
//   caller → called   Answer: HMAC(secret, "caller" ‖ hello ‖ b)
//   caller ← called   Verdict
//
// Each side proves that it knows the group's secret without showing the secret. The proofs cover
// values that both sides have chosen, so that a recorded handshake cannot be replayed. The hello's
// proof lets the called rank refuse a caller without the secret at once, instead of waiting for an
// answer. Only the hello can be replayed, against which the called rank remembers nonces. A status
// in place of any message ends the handshake with a reason. HMAC uses SHA-256 (RFC 2104).
namespace muster {

enum class ConnectionKind : uint8_t { kControl = 0, kData = 1 };

struct Hello {
  // Key of the round or sub-group, 16 bytes. Tells groups apart; no secret.
  std::string group_key;
  // Nonce of the called endpoint's address.
  std::string endpoint_nonce;
  // Nonce of the caller, 16 bytes.
  std::string nonce;
  // HMAC over the other fields, made by Call.
  std::string proof;
  ConnectionKind kind = ConnectionKind::kControl;
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t size = 0;
  bool tls = false;
  // Number of data connections of a pair that uses TCP.
  uint32_t connections = 1;
  // Index of this data connection, below `connections`; 0 for control.
  uint32_t lane = 0;

  std::string Serialize() const;
  // Serializes all fields except the proof.
  std::string Claims() const;
  // Parses a hello. InvalidArgument: `bytes` are no hello.
  static absl::StatusOr<Hello> Parse(absl::string_view bytes);
};

// Run the two sides of the handshake; block until `deadline` at most. `socket` is non-blocking.
// Return a key of 32 bytes that only the two sides know. Unauthenticated: one side does not know
// the secret. FailedPrecondition: the two disagree on the group. Unavailable: no answer.
absl::StatusOr<std::string> Call(int socket, const Hello& hello, absl::string_view secret,
                                 Deadline deadline);
// `hello` has been read already; `expected` is what it should say, its nonce aside.
absl::StatusOr<std::string> Answer(int socket, const Hello& hello, const Hello& expected,
                                   absl::string_view secret, Deadline deadline);

// Returns true if the hello's proof is right. The hello may still be a recorded one.
bool ProvesSecret(const Hello& hello, absl::string_view secret);

// Ends a handshake with `reason` in place of an answer.
void Refuse(int socket, const absl::Status& reason);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_HANDSHAKE_H_
