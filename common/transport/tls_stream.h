#ifndef MUSTER_COMMON_TRANSPORT_TLS_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_TLS_STREAM_H_

#include <openssl/types.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/byte_stream.h"
#include "common/transport/deadline.h"
#include "common/transport/descriptor.h"

namespace muster {

// What TlsStream and OpenSSL's input and output share.
struct TlsSocket {
  int descriptor = -1;
  // Whether records are collected in `encrypted`; during the handshake they are sent as they come.
  bool collects = false;
  // Records that are made and not yet the kernel's: from encrypted_begin on. A call of send for
  // each would cost more than the encryption.
  std::vector<char> encrypted;
  size_t encrypted_begin = 0;
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
                                                           Deadline deadline);
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
  absl::Status ShakeHands(TlsRole role, Deadline deadline);
  absl::Status Failure(const char* what, int result);
  // Hands the kernel what it takes of the collected records.
  absl::Status SendRecords(Push push);

  Descriptor socket_;
  TlsSocket shared_;
  bool held_back_ = false;
  // The callbacks of the handshake read it.
  std::string key_;
  std::unique_ptr<SSL_CTX, ContextDeleter> context_;
  std::unique_ptr<SSL, SslDeleter> ssl_;
  // Collected records, in order: how many bytes of the caller's each holds, and of `encrypted` it
  // and those before it. They count as written once the whole record is the kernel's, so that no
  // call is needed to send what was taken.
  struct Record {
    size_t bytes = 0;
    size_t end = 0;
  };
  std::deque<Record> records_;
  // The bytes in records_.
  size_t begun_ = 0;
  // Sent, but not yet offered again by the caller, who does not know.
  size_t ahead_ = 0;
  // The last Read found nothing more.
  bool drained_ = true;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_TLS_STREAM_H_
