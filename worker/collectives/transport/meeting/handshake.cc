#include "worker/collectives/transport/meeting/handshake.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/answer.h"
#include "common/transport/keyed_hash.h"
#include "common/transport/sockets/blocking_frames.h"
#include "common/transport/wire.h"

namespace muster {
namespace {

constexpr char kMagic[] = "muster collectives";
constexpr uint32_t kHandshakeVersion = 3;
constexpr size_t kHandshakeNonceBytes = 16;
constexpr size_t kProofBytes = 32;

absl::StatusOr<std::string> ReceiveReply(int socket, Deadline deadline) {
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, ReceiveFrame(socket, deadline));
  return DecodeAnswer(bytes);
}

absl::Status WrongSecret() {
  return absl::UnauthenticatedError(
      "it does not know the group's secret; it belongs to another job or round");
}

absl::Status Disagreement(absl::string_view its, absl::string_view ours) {
  return absl::FailedPreconditionError(absl::StrCat("it joins with ", its, ", expected ", ours));
}

absl::Status Compare(const Hello& hello, const Hello& expected) {
  if (hello.size != expected.size) {
    return Disagreement(absl::StrCat("a group of size ", hello.size), absl::StrCat(expected.size));
  }
  if (hello.to != expected.to) {
    return Disagreement(absl::StrCat("a call to rank ", hello.to), absl::StrCat(expected.to));
  }
  if (hello.tls != expected.tls) {
    return Disagreement(hello.tls ? "TLS on" : "TLS off", expected.tls ? "on" : "off");
  }
  if (hello.connections != expected.connections) {
    return Disagreement(
        absl::StrCat(hello.connections,
                     hello.connections == 1 ? " data connection" : " data connections"),
        absl::StrCat(expected.connections));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Hello::Serialize() const {
  WireWriter writer;
  writer.Text(proof);
  return Claims() + writer.bytes();
}

std::string Hello::Claims() const {
  WireWriter writer;
  writer.Text(kMagic);
  writer.Number(kHandshakeVersion);
  writer.Text(group_key);
  writer.Text(endpoint_nonce);
  writer.Text(nonce);
  writer.Number(kind);
  writer.Number(from);
  writer.Number(to);
  writer.Number(size);
  writer.Number(static_cast<uint8_t>(tls));
  writer.Number(connections);
  writer.Number(lane);
  return writer.bytes();
}

absl::StatusOr<Hello> Hello::Parse(absl::string_view bytes) {
  WireReader reader(bytes);
  const std::string magic = reader.Text();
  const uint32_t version = reader.Number<uint32_t>();
  if (!reader.ok() || magic != kMagic || version != kHandshakeVersion) {
    return absl::InvalidArgumentError("not a rank of this release");
  }
  Hello hello;
  hello.group_key = reader.Text();
  hello.endpoint_nonce = reader.Text();
  hello.nonce = reader.Text();
  const uint8_t kind = reader.Number<uint8_t>();
  hello.from = reader.Number<uint32_t>();
  hello.to = reader.Number<uint32_t>();
  hello.size = reader.Number<uint32_t>();
  hello.tls = reader.Number<uint8_t>() != 0;
  hello.connections = reader.Number<uint32_t>();
  hello.lane = reader.Number<uint32_t>();
  hello.proof = reader.Text();
  hello.kind = static_cast<ConnectionKind>(kind);
  const uint32_t lanes = hello.kind == ConnectionKind::kData ? hello.connections : 1;
  if (!reader.Done() || kind > 1 || hello.nonce.size() != kHandshakeNonceBytes ||
      hello.lane >= lanes) {
    return absl::InvalidArgumentError("not a rank's hello");
  }
  return hello;
}

absl::StatusOr<std::string> Call(int socket, const Hello& hello, absl::string_view secret,
                                 Deadline deadline) {
  Hello proven = hello;
  proven.proof = KeyedHash(secret, "hello" + hello.Claims());
  const std::string sent = proven.Serialize();
  MUSTER_RETURN_IF_ERROR(SendFrame(socket, sent, deadline));
  MUSTER_ASSIGN_OR_RETURN(const std::string challenge, ReceiveReply(socket, deadline));
  if (challenge.size() != kHandshakeNonceBytes + kProofBytes) {
    return absl::UnavailableError("its challenge is malformed");
  }
  const std::string transcript = sent + challenge.substr(0, kHandshakeNonceBytes);
  if (!SameHash(challenge.substr(kHandshakeNonceBytes), KeyedHash(secret, "called" + transcript))) {
    Refuse(socket, WrongSecret());
    return WrongSecret();
  }
  const std::string proof = KeyedHash(secret, "caller" + transcript);
  MUSTER_RETURN_IF_ERROR(SendFrame(socket, EncodeAnswer(absl::OkStatus(), proof), deadline));
  MUSTER_RETURN_IF_ERROR(ReceiveReply(socket, deadline).status());
  return KeyedHash(secret, "key" + transcript);
}

absl::StatusOr<std::string> Answer(int socket, const Hello& hello, const Hello& expected,
                                   absl::string_view secret, Deadline deadline) {
  if (!ProvesSecret(hello, secret)) {
    Refuse(socket, WrongSecret());
    return WrongSecret();
  }
  const std::string nonce = RandomBytes(kHandshakeNonceBytes);
  const std::string transcript = hello.Serialize() + nonce;
  const std::string proof = KeyedHash(secret, "called" + transcript);
  MUSTER_RETURN_IF_ERROR(
      SendFrame(socket, EncodeAnswer(absl::OkStatus(), nonce + proof), deadline));
  absl::StatusOr<std::string> answer = ReceiveReply(socket, deadline);
  if (!answer.ok()) return answer.status();
  if (!SameHash(*answer, KeyedHash(secret, "caller" + transcript))) {
    Refuse(socket, WrongSecret());
    return WrongSecret();
  }
  // Only a caller that knows the secret is told what else is wrong.
  if (absl::Status status = Compare(hello, expected); !status.ok()) {
    Refuse(socket, status);
    return status;
  }
  MUSTER_RETURN_IF_ERROR(SendFrame(socket, EncodeAnswer(absl::OkStatus()), deadline));
  return KeyedHash(secret, "key" + transcript);
}

bool ProvesSecret(const Hello& hello, absl::string_view secret) {
  return SameHash(hello.proof, KeyedHash(secret, "hello" + hello.Claims()));
}

void Refuse(int socket, const absl::Status& reason) {
  // The send buffer is empty, so that this needs no time.
  SendFrame(socket, EncodeAnswer(reason), Deadline::After(absl::Seconds(1))).IgnoreError();
}

}  // namespace muster
