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

// What the two directions' keys come from (RFC 8446, section 7.1).
struct TlsSecrets {
  std::string sending;
  std::string receiving;
};

// The handshake of TLS 1.3 by OpenSSL, without certificates: both sides prove that they know one
// key of 32 bytes, an external pre-shared key. A Diffie-Hellman exchange on top keeps old traffic
// secret when the key leaks. AES-128-GCM, for its speed. It takes nothing from the socket that
// comes behind it. Not thread-safe.
class TlsHandshake {
 public:
  // The socket, which does not block, outlives it. REQUIRES: key.size() == 32.
  static absl::StatusOr<std::unique_ptr<TlsHandshake>> Begin(int socket, TlsRole role,
                                                             const std::string& key);
  ~TlsHandshake();

  // Goes on as far as it can now. Poll's events to wait for before the next call; 0: it is done.
  // Unauthenticated: the other side has another key. Unavailable: it has gone.
  absl::StatusOr<short> Advance();

  // REQUIRES: it is done.
  const TlsSecrets& secrets() const { return secrets_; }

 private:
  struct ContextDeleter {
    void operator()(SSL_CTX* context) const;
  };
  struct SslDeleter {
    void operator()(SSL* ssl) const;
  };

  // OpenSSL's calls for an SSL of this class.
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
