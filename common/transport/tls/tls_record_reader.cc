#include "common/transport/tls/tls_record_reader.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

// Bytes of records received with one call.
constexpr size_t kReceiveBytes = 256 << 10;

constexpr uint8_t kOuterType = 23;
constexpr uint8_t kCloseNotify = 0;
constexpr uint8_t kKeyUpdateHead[] = {24, 0, 0, 1};

// More records in a row without bytes (key changes, empty ones) only keep the reader busy.
constexpr int kMostBarren = 32;

uint8_t At(absl::Span<const std::byte> bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

// Returns the record's length, header included.
size_t RecordBytes(absl::Span<const std::byte> header) {
  return kTlsHeaderBytes + static_cast<size_t>(At(header, 3) << 8 | At(header, 4));
}

}  // namespace

TlsRecordReader::TlsRecordReader(int socket, std::string secret)
    : socket_(socket),
      key_(std::move(secret)),
      received_(new std::byte[kReceiveBytes + kTlsRecordBytes]),
      opened_(new std::byte[kTlsRecordBytes]) {}

absl::Status TlsRecordReader::Blame(TlsAlert alert, absl::Status error) {
  farewell_ = alert;
  return error;
}

absl::Status TlsRecordReader::CheckHeader() {
  if (end_ - begin_ < kTlsHeaderBytes) return absl::OkStatus();
  const absl::Span<const std::byte> header(received_.get() + begin_, kTlsHeaderBytes);
  if (At(header, 0) != kOuterType) {
    return Blame(TlsAlert::kUnexpectedMessage,
                 absl::UnauthenticatedError(
                     absl::StrCat("a TLS record of type ", At(header, 0), " is out of place")));
  }
  if (RecordBytes(header) > kTlsRecordBytes) {
    return Blame(TlsAlert::kRecordOverflow,
                 absl::UnauthenticatedError(
                     absl::StrCat("a TLS record of ", RecordBytes(header), " bytes")));
  }
  return absl::OkStatus();
}

absl::Span<const std::byte> TlsRecordReader::NextRecord() const {
  const absl::Span<const std::byte> there(received_.get() + begin_, end_ - begin_);
  if (there.size() < kTlsHeaderBytes) return {};
  return there.first(there.size() < RecordBytes(there) ? 0 : RecordBytes(there));
}

bool TlsRecordReader::HasHiddenBytes() const {
  // A part of a record cannot be opened yet.
  return opened_begin_ < opened_end_ || !NextRecord().empty() || !broken_.ok();
}

bool TlsRecordReader::TakeKeyRequest() { return std::exchange(key_is_wanted_, false); }

size_t TlsRecordReader::TakeOpened(absl::Span<std::byte> out) {
  const size_t taken = std::min(out.size(), opened_end_ - opened_begin_);
  std::memcpy(out.data(), opened_.get() + opened_begin_, taken);
  opened_begin_ += taken;
  return taken;
}

absl::StatusOr<size_t> TlsRecordReader::Read(absl::Span<std::byte> out) {
  if (out.empty()) return 0;
  // Bytes that were left from before say nothing of what has come since.
  emptied_ = false;
  size_t read = TakeOpened(out);
  while (read < out.size() && broken_.ok()) {
    broken_ = CheckHeader();
    const absl::Span<const std::byte> record = NextRecord();
    if (!broken_.ok()) {
      break;
    } else if (!record.empty()) {
      const absl::StatusOr<size_t> opened = OpenRecord(record, out.subspan(read));
      broken_ = opened.status();
      read += opened.value_or(0);
    } else if (read > 0) {
      return read;
    } else {
      const absl::StatusOr<bool> received = Receive();
      broken_ = received.status();
      if (received.ok() && !*received) return 0;
    }
  }
  // Bytes before the error are returned first.
  if (read == 0) return broken_;
  return read;
}

absl::StatusOr<size_t> TlsRecordReader::OpenRecord(absl::Span<const std::byte> record,
                                                   absl::Span<std::byte> out) {
  begin_ += record.size();
  const bool fits = record.size() <= out.size() + kTlsOverheadBytes;
  std::byte* const place = fits ? out.data() : opened_.get();
  const absl::StatusOr<TlsRecordKey::Opened> opened = key_.Open(record, place);
  if (!opened.ok()) return Blame(TlsAlert::kBadRecordMac, opened.status());
  const bool is_data = opened->content == static_cast<uint8_t>(TlsContent::kApplicationData);
  barren_ = is_data && opened->bytes > 0 ? 0 : barren_ + 1;
  if (barren_ > kMostBarren) {
    return Blame(TlsAlert::kUnexpectedMessage,
                 absl::UnauthenticatedError("too many TLS records without content"));
  }
  if (!is_data) {
    MUSTER_RETURN_IF_ERROR(Handle(opened->content, {place, opened->bytes}));
    return 0;
  }
  if (fits) return opened->bytes;
  opened_begin_ = 0;
  opened_end_ = opened->bytes;
  return TakeOpened(out);
}

absl::Status TlsRecordReader::Handle(uint8_t content, absl::Span<const std::byte> message) {
  if (content == static_cast<uint8_t>(TlsContent::kAlert) && message.size() == 2) {
    if (At(message, 1) == kCloseNotify) {
      return absl::UnavailableError("the other end has closed the connection");
    }
    farewell_.reset();
    return absl::UnauthenticatedError(
        absl::StrCat("the other end ended TLS with alert ", At(message, 1)));
  }
  const bool is_key_update =
      content == static_cast<uint8_t>(TlsContent::kHandshake) &&
      message.size() == sizeof(kKeyUpdateHead) + 1 &&
      std::memcmp(message.data(), kKeyUpdateHead, sizeof(kKeyUpdateHead)) == 0 &&
      At(message, 4) <= 1;
  if (!is_key_update) {
    return Blame(TlsAlert::kUnexpectedMessage,
                 absl::UnauthenticatedError(
                     absl::StrCat("a TLS message of type ", content, " is out of place")));
  }
  key_.Advance();
  key_is_wanted_ |= At(message, 4) == 1;
  return absl::OkStatus();
}

absl::StatusOr<bool> TlsRecordReader::Receive() {
  // Less than a record is left to move.
  std::memmove(received_.get(), received_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (true) {
    const ssize_t got = recv(socket_, received_.get() + end_, kReceiveBytes, MSG_DONTWAIT);
    if (got > 0) {
      end_ += static_cast<size_t>(got);
      emptied_ = static_cast<size_t>(got) < kReceiveBytes;
      return true;
    }
    if (got == 0) return absl::UnavailableError("the other end has closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      emptied_ = true;
      return false;
    }
    if (errno != EINTR) return SystemError("TLS read");
  }
}

}  // namespace muster
