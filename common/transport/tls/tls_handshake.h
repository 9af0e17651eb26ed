#ifndef MUSTER_COMMON_TRANSPORT_TLS_TLS_HANDSHAKE_H_
#define MUSTER_COMMON_TRANSPORT_TLS_TLS_HANDSHAKE_H_

#include <openssl/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

enum class TlsRole { kClient, kServer };

// The secrets from which the two directions' keys come (RFC 8446, section 7.1).
struct TlsSecrets {
  std::string sending;
  std::string receiving;
};

// A TLS 1.3 handshake by OpenSSL, without certificates: both sides prove that they know one key of
// 32 bytes, an external pre-shared key. A Diffie-Hellman exchange on top keeps old traffic secret
// when the key leaks. The cipher is AES-128-GCM, for its speed. The handshake reads nothing from
// the socket beyond its own messages. Not thread-safe.
class TlsHandshake {
 public:
  // Begins on a socket that does not block and outlives the handshake. REQUIRES: key.size() == 32.
  static absl::StatusOr<std::unique_ptr<TlsHandshake>> Begin(int socket, TlsRole role,
                                                             const std::string& key);
  ~TlsHandshake();

  // Goes on as far as possible now. Returns poll's events to await before the next call; 0: done.
  // Unauthenticated: the other side has another key. Unavailable: the other side has gone.
  absl::StatusOr<short> Advance();

  // REQUIRES: the handshake is done.
  const TlsSecrets& secrets() const { return secrets_; }

 private:
  struct ContextDeleter {
    void operator()(SSL_CTX* context) const;
  };
  struct SslDeleter {
    void operator()(SSL* ssl) const;
  };

  // OpenSSL's callbacks for an SSL of this class.
  struct Callbacks;

  TlsHandshake(int socket, TlsRole role, const std::string& key)
      : socket_(socket), role_(role), key_(key) {}
  absl::Status Prepare();
  void NoteSecret(absl::string_view line);
  absl::StatusOr<short> Failure(int result) const;

  const int socket_;
  const TlsRole role_;
  std::string key_;
  bool ended_ = false;
  TlsSecrets secrets_;
  std::unique_ptr<SSL_CTX, ContextDeleter> context_;
  std::unique_ptr<SSL, SslDeleter> ssl_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_TLS_TLS_HANDSHAKE_H_
