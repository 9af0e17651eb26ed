#ifndef MUSTER_COMMON_TRANSPORT_TLS_TLS_RECORD_WRITER_H_
#define MUSTER_COMMON_TRANSPORT_TLS_TLS_RECORD_WRITER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/byte_stream.h"
#include "common/transport/tls/tls_record_key.h"

namespace muster {

// The sending half of a TlsStream: makes bytes into records and hands these to the kernel, several
// with one call. One thread at a time, except where noted.
class TlsRecordWriter {
 public:
  // `socket` outlives the writer.
  TlsRecordWriter(int socket, std::string secret, uint64_t records_per_key);

  // Behave like ByteStream's.
  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes, ByteStream::Push push);
  absl::Status Flush() {
    PushHeldBack();
    return absl::OkStatus();
  }

  // Returns whether the writer has begun with bytes that Write was offered and did not take.
  bool HasBegun() const { return begun_ + ahead_ > 0; }
  uint64_t key_changes() const { return key_changes_; }

  // Changes the key before the next record, as the other side has asked. Any thread.
  void ChangeKey() { key_is_due_.store(true, std::memory_order_relaxed); }

  // Tells the other side why no more will come, as far as possible now. The last call.
  void SayFarewell(TlsAlert alert);

 private:
  void Seal(TlsContent content, absl::Span<const std::byte> bytes);
  void SealKeyUpdate();
  absl::Status Send(ByteStream::Push push);
  void PushHeldBack();

  const int socket_;
  const uint64_t records_per_key_;
  TlsRecordKey key_;
  uint64_t key_changes_ = 0;
  std::atomic<bool> key_is_due_{false};
  // True if the kernel holds bytes back until more follow.
  bool held_back_ = false;
  // Records made and not yet handed to the kernel: [begin_, end_).
  const std::unique_ptr<std::byte[]> sealed_;
  size_t begin_ = 0;
  size_t end_ = 0;
  // A record in sealed_ with the caller's bytes: their number, and where the record ends. The bytes
  // count as written once the kernel has the whole record, so that no call is needed to send what
  // was taken.
  struct Record {
    size_t bytes = 0;
    size_t end = 0;
  };
  std::deque<Record> records_;
  // The bytes in records_.
  size_t begun_ = 0;
  // Bytes sent that the caller has yet to offer again, not knowing that they are sent.
  size_t ahead_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_TLS_TLS_RECORD_WRITER_H_
