#ifndef MUSTER_COMMON_TRANSPORT_TLS_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_TLS_STREAM_H_

#include <openssl/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/byte_stream.h"
#include "common/transport/descriptor.h"

namespace muster {

// What TlsStream and OpenSSL's input and output share.
struct TlsSocket {
  int descriptor = -1;
  // Send with MSG_MORE.
  bool hold_back = false;
  // The other end has closed.
  bool ended = false;
  // Received and not yet OpenSSL's: [begin, end). OpenSSL asks for a header and then for the
  // record; its own way of reading ahead moves all that is left with every record.
  std::vector<char> received;
  size_t begin = 0;
  size_t end = 0;
};

enum class TlsRole { kClient, kServer };

// TLS 1.3 (RFC 8446) over a TCP socket. Both sides prove that they know one key of 32 bytes, an
// external pre-shared key; there are no certificates. A Diffie-Hellman exchange on top keeps old
// traffic secret when the key leaks. AES-128-GCM, for its speed.
class TlsStream final : public ByteStream {
 public:
  // Shakes hands; blocks. Unauthenticated: the other side has another key. Unavailable: it has
  // gone, or did not answer in time. REQUIRES: the socket does not block; key.size() == 32.
  static absl::StatusOr<std::unique_ptr<TlsStream>> Create(Descriptor socket, TlsRole role,
                                                           const std::string& key,
                                                           absl::Time deadline);
  ~TlsStream() override;

  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes, Push push) override;
  absl::Status Flush() override;
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override;
  int descriptor() const override { return socket_.get(); }
  bool HasHiddenBytes() const override;
  const char* name() const override { return "tls"; }

 private:
  struct ContextDeleter {
    void operator()(SSL_CTX* context) const;
  };
  struct SslDeleter {
    void operator()(SSL* ssl) const;
  };

  TlsStream(Descriptor socket, const std::string& key);
  absl::Status ShakeHands(TlsRole role, absl::Time deadline);
  absl::Status Failure(const char* what, int result);

  Descriptor socket_;
  TlsSocket shared_;
  bool held_back_ = false;
  // The callbacks of the handshake read it.
  std::string key_;
  std::unique_ptr<SSL_CTX, ContextDeleter> context_;
  std::unique_ptr<SSL, SslDeleter> ssl_;
  // Bytes of a record that is encrypted and did not fit; OpenSSL wants to be offered as many again,
  // and does not look at them.
  size_t begun_ = 0;
  // Of a record that held more than the caller offered the next time: what of it is sent already.
  size_t ahead_ = 0;
  // The last Read found nothing more.
  bool drained_ = true;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_TLS_STREAM_H_
