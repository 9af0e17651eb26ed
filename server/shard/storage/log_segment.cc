#include "server/shard/storage/log_segment.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little, "stored integers are little-endian");

constexpr absl::string_view kSegmentMagic = "MUSTERLG";
constexpr uint32_t kRecordMagic = 0x4452'534d;
// Small enough that what was read is checked and copied out of the processor's second cache.
constexpr uint64_t kWindowBytes = 512 << 10;

template <typename T>
void Put(absl::Span<std::byte> out, size_t offset, T value) {
  std::memcpy(out.data() + offset, &value, sizeof(T));
}

template <typename T>
T Get(absl::Span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

uint64_t Checksum(absl::Span<const std::byte> bytes, uint64_t seed) {
  return Fingerprint({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, seed);
}

uint64_t BodyChecksum(absl::Span<const std::byte> header, absl::Span<const std::byte> payload) {
  FingerprintStream stream;
  stream.Add(header.data(), header.size());
  stream.Add(payload.data(), payload.size());
  return stream.Finish();
}

}  // namespace

uint64_t LogPaddingBytes(uint64_t bytes) { return (8 - bytes % 8) % 8; }

uint64_t LogRecordBytes(uint64_t header_bytes, uint64_t payload_bytes) {
  return kLogRecordHeadBytes + header_bytes + LogPaddingBytes(header_bytes) + payload_bytes +
         LogPaddingBytes(payload_bytes);
}

void EncodeLogSegmentHeader(const LogSegmentHeader& header, absl::Span<std::byte> out) {
  std::memcpy(out.data(), kSegmentMagic.data(), kSegmentMagic.size());
  Put<uint32_t>(out, 8, kLogFormatVersion);
  Put<uint32_t>(out, 12,
                static_cast<uint32_t>(std::min<uint64_t>(header.file_bytes / 8,
                                                         std::numeric_limits<uint32_t>::max())));
  Put<uint64_t>(out, 16, header.segment_id);
  Put<uint64_t>(out, 24, header.first_lsn);
  Put<uint64_t>(out, 32, header.previous_bytes);
  Put<uint64_t>(out, 40, Checksum(out.first(40), 0));
}

absl::StatusOr<LogSegmentHeader> DecodeLogSegmentHeader(absl::Span<const std::byte> bytes,
                                                        const std::string& path) {
  if (bytes.size() < kLogSegmentHeaderBytes) {
    return absl::DataLossError(absl::StrCat("log segment ", path, " has ", bytes.size(),
                                            " bytes, its header alone needs ",
                                            kLogSegmentHeaderBytes, "; restore from a checkpoint"));
  }
  if (std::memcmp(bytes.data(), kSegmentMagic.data(), kSegmentMagic.size()) != 0) {
    return absl::DataLossError(absl::StrCat("log segment ", path,
                                            " does not begin with the mark of a log; its first "
                                            "bytes are damaged; restore from a checkpoint"));
  }
  // Before the checksum: a newer format may place it elsewhere.
  if (const uint32_t version = Get<uint32_t>(bytes, 8); version > kLogFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("log segment ", path, " has format version ", version,
                     ", written by a later release of Muster; this one reads formats up to ",
                     kLogFormatVersion));
  }
  const uint64_t expected = Get<uint64_t>(bytes, 40);
  const uint64_t actual = Checksum(bytes.first(40), 0);
  if (expected != actual) {
    return absl::DataLossError(absl::StrCat(
        "log segment ", path, ": checksum of the header at offset 0 is ", absl::Hex(actual),
        ", stored is ", absl::Hex(expected), "; restore from a checkpoint"));
  }
  return LogSegmentHeader{.segment_id = Get<uint64_t>(bytes, 16),
                          .first_lsn = Get<uint64_t>(bytes, 24),
                          .previous_bytes = Get<uint64_t>(bytes, 32),
                          .file_bytes = uint64_t{Get<uint32_t>(bytes, 12)} * 8};
}

void EncodeLogRecordHead(const LogRecordHead& head, uint64_t segment_id,
                         absl::Span<std::byte> out) {
  Put<uint32_t>(out, 0, kRecordMagic);
  Put<uint32_t>(out, 4, head.header_bytes);
  Put<uint32_t>(out, 8, head.payload_bytes);
  Put<uint32_t>(out, 12, 0);
  Put<uint64_t>(out, 16, head.lsn);
  Put<uint64_t>(out, 24, head.synced_lsn);
  Put<uint64_t>(out, 32, head.checksum);
  Put<uint64_t>(out, 40, Checksum(out.first(40), segment_id));
}

std::optional<LogRecordHead> DecodeLogRecordHead(absl::Span<const std::byte> bytes,
                                                 uint64_t segment_id) {
  if (bytes.size() < kLogRecordHeadBytes || Get<uint32_t>(bytes, 0) != kRecordMagic ||
      Get<uint64_t>(bytes, 40) != Checksum(bytes.first(40), segment_id)) {
    return std::nullopt;
  }
  return LogRecordHead{.header_bytes = Get<uint32_t>(bytes, 4),
                       .payload_bytes = Get<uint32_t>(bytes, 8),
                       .lsn = Get<uint64_t>(bytes, 16),
                       .synced_lsn = Get<uint64_t>(bytes, 24),
                       .checksum = Get<uint64_t>(bytes, 32)};
}

absl::StatusOr<absl::Span<const std::byte>> LogSegmentReader::Window(uint64_t offset,
                                                                     uint64_t bytes) {
  if (offset >= file_bytes_) return absl::Span<const std::byte>();
  bytes = std::min(bytes, file_bytes_ - offset);
  const uint64_t end = window_begin_ + window_bytes_;
  if (offset < window_begin_ || offset + bytes > end) {
    // What was read of it moves to the front, and is not read again.
    const size_t kept = offset >= window_begin_ && offset < end ? end - offset : 0;
    const uint64_t wanted = std::min(std::max(bytes, kWindowBytes), file_bytes_ - offset);
    window_.resize(std::max<size_t>(window_.size(), (wanted + 7) / 8));
    auto* const begin = reinterpret_cast<std::byte*>(window_.data());
    if (kept > 0) std::memmove(begin, begin + (offset - window_begin_), kept);
    window_begin_ = offset;
    window_bytes_ = kept;
    MUSTER_ASSIGN_OR_RETURN(const size_t read,
                            file_.Read(offset + kept, {begin + kept, wanted - kept}));
    window_bytes_ += read;
  }
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(window_.data()), window_bytes_)
      .subspan(offset - window_begin_);
}

absl::StatusOr<std::optional<LogSegmentReader::Record>> LogSegmentReader::ReadAt(uint64_t offset) {
  MUSTER_ASSIGN_OR_RETURN(absl::Span<const std::byte> bytes, Window(offset, kLogRecordHeadBytes));
  const std::optional<LogRecordHead> head = DecodeLogRecordHead(bytes, segment_id_);
  if (!head.has_value()) return std::nullopt;
  const uint64_t total = LogRecordBytes(head->header_bytes, head->payload_bytes);
  if (total > file_bytes_ - offset) return std::nullopt;
  MUSTER_ASSIGN_OR_RETURN(bytes, Window(offset, total));
  if (bytes.size() < total) return std::nullopt;
  Record record{.head = *head, .offset = offset};
  record.header = bytes.subspan(kLogRecordHeadBytes, head->header_bytes);
  record.payload =
      bytes.subspan(kLogRecordHeadBytes + head->header_bytes + LogPaddingBytes(head->header_bytes),
                    head->payload_bytes);
  if (BodyChecksum(record.header, record.payload) != head->checksum) return std::nullopt;
  return record;
}

absl::StatusOr<std::optional<LogSegmentReader::Record>> LogSegmentReader::Search(uint64_t offset,
                                                                                 uint64_t lsn) {
  while (offset + kLogRecordHeadBytes <= file_bytes_) {
    MUSTER_ASSIGN_OR_RETURN(absl::Span<const std::byte> bytes, Window(offset, kLogRecordHeadBytes));
    if (bytes.size() < kLogRecordHeadBytes) break;
    size_t i = 0;
    for (; i + kLogRecordHeadBytes <= bytes.size(); i += 8) {
      if (Get<uint32_t>(bytes, i) != kRecordMagic) continue;
      const std::optional<LogRecordHead> head = DecodeLogRecordHead(bytes.subspan(i), segment_id_);
      if (head.has_value() && head->lsn > lsn) break;
    }
    offset += i;
    if (i + kLogRecordHeadBytes > bytes.size()) continue;
    MUSTER_ASSIGN_OR_RETURN(std::optional<Record> record, ReadAt(offset));
    if (record.has_value()) return record;
    offset += 8;
  }
  return std::nullopt;
}

}  // namespace muster
