#ifndef MUSTER_COMMON_TRANSPORT_TLS_TLS_STREAM_H_
#define MUSTER_COMMON_TRANSPORT_TLS_TLS_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/byte_stream.h"
#include "common/transport/deadline.h"
#include "common/transport/descriptor.h"
#include "common/transport/tls/tls_handshake.h"
#include "common/transport/tls/tls_record_reader.h"
#include "common/transport/tls/tls_record_writer.h"

namespace muster {

// AES-GCM is safe for 2^24.5 records under one key (RFC 8446, section 5.5), 362 GiB of full ones.
// This is a sixth of that, 64 GiB; changing keys costs next to nothing.
inline constexpr uint64_t kTlsRecordsPerKey = uint64_t{1} << 22;

struct TlsStreamOptions {
  // Records that a side sends under one key before it changes to the next (KeyUpdate).
  uint64_t records_per_key = kTlsRecordsPerKey;
};

// TLS 1.3 (RFC 8446) over a TCP socket, between ends of this class, which send no tickets. OpenSSL
// shakes hands (see TlsHandshake); records are made and opened here, straight from and to where the
// bytes lie. Unlike most streams, this one may be written by one thread while another reads.
class TlsStream final : public ByteStream {
 public:
  // Shakes hands; blocks. Unauthenticated: the other side has another key. Unavailable: it has
  // gone, or did not answer by the deadline. REQUIRES: the socket does not block; key.size() == 32.
  static absl::StatusOr<std::unique_ptr<TlsStream>> Create(Descriptor socket, TlsRole role,
                                                           const std::string& key,
                                                           Deadline deadline,
                                                           TlsStreamOptions options = {});
  // Does the same without blocking: the caller calls ShakeHands until it is done, before all else.
  static absl::StatusOr<std::unique_ptr<TlsStream>> Begin(Descriptor socket, TlsRole role,
                                                          const std::string& key,
                                                          TlsStreamOptions options = {});
  // Goes on with the handshake as far as possible now. Returns poll's events to wait for before the
  // next call; 0: the handshake is done. Errors as of Create, except for the time.
  absl::StatusOr<short> ShakeHands();

  ~TlsStream() override;

  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes, Push push) override {
    return writer_->Write(bytes, push);
  }
  absl::Status Flush() override { return writer_->Flush(); }
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override;
  int descriptor() const override { return socket_.get(); }
  bool HasHiddenBytes() const override { return reader_->HasHiddenBytes(); }
  // Returns whether the last Read took all that had come, unless the other end has closed since.
  bool drained() const { return reader_->drained(); }
  // Returns whether the stream has begun with bytes that Write was offered and did not take.
  bool HasBegun() const { return writer_->HasBegun(); }
  // Number of key changes of this side.
  uint64_t key_changes() const { return writer_->key_changes(); }
  const char* name() const override { return "tls"; }

 private:
  TlsStream(Descriptor socket, TlsStreamOptions options)
      : options_(options), socket_(std::move(socket)) {}

  const TlsStreamOptions options_;
  const Descriptor socket_;
  // Set during the handshake; the two halves are set from then on.
  std::unique_ptr<TlsHandshake> handshake_;
  std::optional<TlsRecordWriter> writer_;
  // Aligned because another thread may use it than the writer.
  alignas(64) std::optional<TlsRecordReader> reader_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_TLS_TLS_STREAM_H_
