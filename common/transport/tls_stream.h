#ifndef MUSTER_COMMON_TRANSPORT_TLS_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_TLS_STREAM_H_

#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/byte_stream.h"
#include "common/transport/deadline.h"
#include "common/transport/descriptor.h"
#include "common/transport/tls_socket.h"

namespace muster {

enum class TlsRole { kClient, kServer };

// AES-GCM is safe for 2^24.5 records under one key (RFC 8446, section 5.5), which full ones reach
// after 362 GiB. A sixth of that: 64 GiB; changing keys costs nothing to speak of.
inline constexpr uint64_t kTlsRecordsPerKey = uint64_t{1} << 22;

struct TlsStreamOptions {
  // A side that has sent so many records under a key goes over to the next (KeyUpdate).
  uint64_t records_per_key = kTlsRecordsPerKey;
};

// TLS 1.3 (RFC 8446) over a TCP socket. Both sides prove that they know one key of 32 bytes, an
// external pre-shared key; there are no certificates. A Diffie-Hellman exchange on top keeps old
// traffic secret when the key leaks. AES-128-GCM, for its speed.
class TlsStream final : public ByteStream {
 public:
  // Shakes hands; blocks. Unauthenticated: the other side has another key. Unavailable: it has
  // gone, or did not answer in time. REQUIRES: the socket does not block; key.size() == 32.
  static absl::StatusOr<std::unique_ptr<TlsStream>> Create(Descriptor socket, TlsRole role,
                                                           const std::string& key,
                                                           Deadline deadline,
                                                           TlsStreamOptions options = {});
  // The same for who must not block: ShakeHands is called until it is done, before all else.
  static absl::StatusOr<std::unique_ptr<TlsStream>> Begin(Descriptor socket, TlsRole role,
                                                          const std::string& key,
                                                          TlsStreamOptions options = {});
  // Goes on with the handshake as far as it can now. Poll's events to wait for before the next
  // call; 0: it is done. Errors as of Create, but for the time.
  absl::StatusOr<short> ShakeHands();

  ~TlsStream() override;

  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes, Push push) override;
  absl::Status Flush() override;
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override;
  int descriptor() const override { return socket_.get(); }
  bool HasHiddenBytes() const override;
  // Whether it has begun with bytes that were offered to Write and not taken.
  bool HasBegun() const { return begun_ + ahead_ > 0; }
  // How often this side has gone over to the next key.
  uint64_t key_changes() const { return key_changes_; }
  const char* name() const override { return "tls"; }

 private:
  struct ContextDeleter {
    void operator()(SSL_CTX* context) const;
  };
  struct SslDeleter {
    void operator()(SSL* ssl) const;
  };

  TlsStream(Descriptor socket, const std::string& key, TlsStreamOptions options);
  absl::Status Prepare(TlsRole role);
  // Encrypts the first of `bytes` into one record; how many.
  absl::StatusOr<size_t> MakeRecord(absl::Span<const std::byte> bytes);
  absl::Status Failure(const char* what, int result);
  // Hands the kernel what it takes of the collected records.
  absl::Status SendRecords(Push push);

  const TlsStreamOptions options_;
  Descriptor socket_;
  TlsSocket shared_;
  // Sent since the last change of keys.
  uint64_t records_under_key_ = 0;
  uint64_t key_changes_ = 0;
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
