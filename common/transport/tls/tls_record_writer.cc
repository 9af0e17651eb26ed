#include "common/transport/tls/tls_record_writer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/status_macros.h"
#include "common/transport/sockets/socket_stream.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

// Records are collected up to this size, and sent with one call.
constexpr size_t kBatchBytes = 256 << 10;
// Room for a key change with the last record, and a farewell.
constexpr size_t kSmallRecords = 2 * (8 + kTlsOverheadBytes);

// KeyUpdate, not asking the other side to do the same (RFC 8446, section 4.6.3).
constexpr std::byte kKeyUpdate[] = {std::byte{24}, std::byte{0}, std::byte{0}, std::byte{1},
                                    std::byte{0}};

}  // namespace

TlsRecordWriter::TlsRecordWriter(int socket, std::string secret, uint64_t records_per_key)
    : socket_(socket),
      records_per_key_(records_per_key),
      key_(std::move(secret)),
      sealed_(new std::byte[kBatchBytes + kTlsRecordBytes + kSmallRecords]) {}

void TlsRecordWriter::Seal(TlsContent content, absl::Span<const std::byte> bytes) {
  end_ += key_.Seal(content, bytes, sealed_.get() + end_);
}

void TlsRecordWriter::SealKeyUpdate() {
  Seal(TlsContent::kHandshake, kKeyUpdate);
  key_.Advance();
  ++key_changes_;
}

absl::Status TlsRecordWriter::Send(ByteStream::Push push) {
  const bool later = push == ByteStream::Push::kLater;
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (later ? MSG_MORE : 0);
  while (begin_ < end_) {
    const ssize_t sent = send(socket_, sealed_.get() + begin_, end_ - begin_, flags);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return SystemError("TLS write");
      break;
    }
    begin_ += static_cast<size_t>(sent);
    held_back_ = later;
  }
  while (!records_.empty() && records_.front().end <= begin_) {
    begun_ -= records_.front().bytes;
    ahead_ += records_.front().bytes;
    records_.pop_front();
  }
  if (begin_ == end_) begin_ = end_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<size_t> TlsRecordWriter::Write(absl::Span<const std::byte> bytes,
                                              ByteStream::Push push) {
  size_t written = 0;
  // In each round, the rest of `bytes` begins with ahead_ bytes already sent, then begun_ bytes.
  while (!bytes.empty()) {
    if (end_ > 0) {
      const bool more = bytes.size() - written > ahead_ + begun_;
      MUSTER_RETURN_IF_ERROR(Send(more ? ByteStream::Push::kLater : push));
    }
    const size_t taken = std::min(ahead_, bytes.size() - written);
    ahead_ -= taken;
    written += taken;
    if (end_ > 0 || written == bytes.size()) break;
    if (key_is_due_.load(std::memory_order_relaxed)) {
      key_is_due_.store(false, std::memory_order_relaxed);
      SealKeyUpdate();
    }
    while (begun_ < bytes.size() - written && end_ < kBatchBytes) {
      if (key_.records() == records_per_key_) SealKeyUpdate();
      const auto next = bytes.subspan(written + begun_, kTlsContentBytes);
      Seal(TlsContent::kApplicationData, next);
      records_.push_back({.bytes = next.size(), .end = end_});
      begun_ += next.size();
    }
  }
  // Bytes begun for a longer offer may have been sent as if more followed.
  if (push == ByteStream::Push::kNow && end_ == 0) PushHeldBack();
  return written;
}

void TlsRecordWriter::PushHeldBack() {
  if (held_back_) PushTcp(socket_);
  held_back_ = false;
}

void TlsRecordWriter::SayFarewell(TlsAlert alert) {
  // A warning or fatal.
  const std::byte level{static_cast<uint8_t>(alert == TlsAlert::kCloseNotify ? 1 : 2)};
  const std::byte message[] = {level, static_cast<std::byte>(alert)};
  Seal(TlsContent::kAlert, message);
  Send(ByteStream::Push::kNow).IgnoreError();
}

}  // namespace muster
