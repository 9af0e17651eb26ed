#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fingerprint.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/storage/log_segment.h"
#include "server/shard/storage/mutation_log.h"

namespace muster {
namespace {

constexpr char kDirectory[] = "/log";
constexpr char kFirstSegment[] = "/log/00000000000000000001.log";
constexpr size_t kSegmentBytes = 4096;

absl::string_view Text(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Appends a record whose head is sound but for what the input changes of it.
void AddRecord(FuzzInput& input, uint64_t expected_lsn, std::string& file) {
  const auto flags = input.Number<uint8_t>();
  const std::string header(input.Bytes(input.Number<uint8_t>() % 32));
  const std::string payload(input.Bytes(input.Number<uint8_t>()));
  LogRecordHead head;
  head.header_bytes = static_cast<uint32_t>(header.size());
  head.payload_bytes = static_cast<uint32_t>(payload.size());
  head.lsn = expected_lsn;
  head.synced_lsn = expected_lsn - 1;
  head.checksum = Fingerprint(header + payload);
  if ((flags & 1) != 0) head.lsn += input.Number<int8_t>();
  if ((flags & 2) != 0) head.synced_lsn += input.Number<int8_t>();
  if ((flags & 4) != 0) head.checksum ^= 1;
  if ((flags & 8) != 0) head.payload_bytes = input.Number<uint32_t>();
  if ((flags & 16) != 0) file.append(8 * (input.Number<uint8_t>() % 16), '\0');
  std::array<std::byte, kLogRecordHeadBytes> bytes;
  EncodeLogRecordHead(head, (flags & 32) != 0 ? 2 : 1, absl::MakeSpan(bytes));
  file += std::string(Text(absl::MakeConstSpan(bytes))) + header;
  file.append(LogPaddingBytes(header.size()), '\0');
  file += payload;
  file.append(LogPaddingBytes(payload.size()), '\0');
}

// The input is a segment as it is, or what a sound one is made from and how it is damaged.
std::string SegmentOf(FuzzInput& input) {
  if (input.Choice(2) == 1) return std::string(input.rest());
  LogSegmentHeader header;
  header.segment_id = 1;
  header.first_lsn = 1 + uint64_t{input.Number<uint16_t>()};
  header.previous_bytes = input.Number<uint8_t>();
  header.file_bytes = 8 * uint64_t{input.Number<uint8_t>()};
  std::array<std::byte, kLogSegmentHeaderBytes> bytes;
  EncodeLogSegmentHeader(header, absl::MakeSpan(bytes));
  std::string file(Text(absl::MakeConstSpan(bytes)));
  for (uint64_t lsn = header.first_lsn; !input.rest().empty(); ++lsn) AddRecord(input, lsn, file);
  if (file.size() < kSegmentBytes) file.resize(kSegmentBytes);
  return file;
}

// Reads a log, whose records must follow one another.
std::vector<std::string> Replay(MutationLog& log) {
  std::vector<std::string> records;
  uint64_t next = log.first_lsn();
  FUZZ_CHECK(log.Replay(0,
                        [&](uint64_t lsn, absl::Span<const std::byte> header,
                            absl::Span<const std::byte> payload) {
                          FUZZ_CHECK(lsn == next++);
                          records.push_back(std::string(Text(header)) + "|" +
                                            std::string(Text(payload)));
                          return absl::OkStatus();
                        })
                 .ok());
  FUZZ_CHECK(next == log.next_lsn());
  return records;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  FakeLogFileSystem files;
  files.set_keeps_space(input.Choice(2) == 0);
  FUZZ_CHECK(files.CreateDirectory(kDirectory).ok());
  FUZZ_CHECK(files.Open(kFirstSegment, LogFileSystem::Mode::kCreate).ok());
  files.contents(kFirstSegment) = SegmentOf(input);
  MutationLog::Options options;
  options.segment_bytes = kSegmentBytes;
  options.file_system = &files;
  auto log = MutationLog::Open(kDirectory, options);
  if (!log.ok()) {
    FUZZ_CHECK(log.status().code() == absl::StatusCode::kDataLoss ||
               log.status().code() == absl::StatusCode::kFailedPrecondition);
    return 0;
  }
  std::vector<std::string> records = Replay(**log);
  // The log keeps what it has read back, and what is appended after it.
  FUZZ_CHECK((*log)->Append({}, Payload::Of(std::vector<char>{'n', 'e', 'w'})).ok());
  FUZZ_CHECK((*log)->Sync().ok());
  records.push_back("|new");
  FUZZ_CHECK(Replay(**log) == records);
  log->reset();
  log = MutationLog::Open(kDirectory, options);
  FUZZ_CHECK(log.ok());
  FUZZ_CHECK(Replay(**log) == records);
  return 0;
}

}  // namespace muster
