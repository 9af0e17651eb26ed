#ifndef MUSTER_COMMON_TRANSPORT_TLS_TLS_RECORD_READER_H_
#define MUSTER_COMMON_TRANSPORT_TLS_TLS_RECORD_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/tls/tls_record_key.h"

namespace muster {

// The receiving half of a TlsStream: takes records from the socket, several with one call, and
// deciphers them to where the reader wants the bytes. One thread at a time.
class TlsRecordReader {
 public:
  // The socket outlives it.
  TlsRecordReader(int socket, std::string secret);

  // As of ByteStream.
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out);
  bool HasHiddenBytes() const;
  // Whether the last Read found all that had come, unless the other end has closed since.
  bool drained() const { return emptied_ && !HasHiddenBytes(); }

  // Whether the other side has asked since the last call that this one change its key.
  bool TakeKeyRequest();

  // What to tell the other side at the end; none: it has ended the connection by an error.
  std::optional<TlsAlert> farewell() const { return farewell_; }

 private:
  // The next record, if all of it is there; otherwise empty.
  absl::Span<const std::byte> NextRecord() const;
  // Of a header, if it is there.
  absl::Status CheckHeader();
  // Opens the next record, to `out` if it has room, otherwise to opened_; how many bytes `out` got.
  absl::StatusOr<size_t> OpenRecord(absl::Span<const std::byte> record, absl::Span<std::byte> out);
  absl::Status Handle(uint8_t content, absl::Span<const std::byte> message);
  // An error that the other side is to blame for.
  absl::Status Blame(TlsAlert alert, absl::Status error);
  size_t TakeOpened(absl::Span<std::byte> out);
  // Whether something has come.
  absl::StatusOr<bool> Receive();

  const int socket_;
  TlsRecordKey key_;
  bool key_is_wanted_ = false;
  // Records in a row that brought no bytes.
  int barren_ = 0;
  // What ended the stream.
  absl::Status broken_;
  std::optional<TlsAlert> farewell_ = TlsAlert::kCloseNotify;
  // The last call of the system's took all that had come.
  bool emptied_ = false;
  // Received and not yet opened: [begin_, end_).
  const std::unique_ptr<std::byte[]> received_;
  size_t begin_ = 0;
  size_t end_ = 0;
  // Of a record that the reader had no room for, what it has yet to read.
  const std::unique_ptr<std::byte[]> opened_;
  size_t opened_begin_ = 0;
  size_t opened_end_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_TLS_TLS_RECORD_READER_H_
