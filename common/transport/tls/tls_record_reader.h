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
// decrypts them to where the reader wants the bytes. One thread at a time.
class TlsRecordReader {
 public:
  // `socket` outlives the reader.
  TlsRecordReader(int socket, std::string secret);

  // Behave like ByteStream's.
  absl::StatusOr<size_t> Read(absl::Span<std::byte> out);
  bool HasHiddenBytes() const;
  // Returns whether the last Read took all that had come, unless the other end has closed since.
  bool drained() const { return emptied_ && !HasHiddenBytes(); }

  // Returns whether the other side has asked, since the last call, that this side change its key.
  bool TakeKeyRequest();

  // Returns what to tell the other side at the end; nullopt: that side ended TLS by an error.
  std::optional<TlsAlert> farewell() const { return farewell_; }

 private:
  // Returns the next record, if all of it is there; otherwise empty.
  absl::Span<const std::byte> NextRecord() const;
  // Checks the next record's header, if it is there.
  absl::Status CheckHeader();
  // Opens the record to `out` if it fits, otherwise to opened_; returns how many bytes `out` got.
  absl::StatusOr<size_t> OpenRecord(absl::Span<const std::byte> record, absl::Span<std::byte> out);
  absl::Status Handle(uint8_t content, absl::Span<const std::byte> message);
  // Notes the alert for the other side, which is to blame for `error`; returns `error`.
  absl::Status Blame(TlsAlert alert, absl::Status error);
  size_t TakeOpened(absl::Span<std::byte> out);
  // Returns whether something has come.
  absl::StatusOr<bool> Receive();

  const int socket_;
  TlsRecordKey key_;
  bool key_is_wanted_ = false;
  // Records in a row that brought no bytes.
  int barren_ = 0;
  // The error that ended the stream.
  absl::Status broken_;
  std::optional<TlsAlert> farewell_ = TlsAlert::kCloseNotify;
  // True if a system call of the last Read took all that had come.
  bool emptied_ = false;
  // Received and not yet opened: [begin_, end_).
  const std::unique_ptr<std::byte[]> received_;
  size_t begin_ = 0;
  size_t end_ = 0;
  // The unread part of a record that the reader had no room for.
  const std::unique_ptr<std::byte[]> opened_;
  size_t opened_begin_ = 0;
  size_t opened_end_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_TLS_TLS_RECORD_READER_H_
