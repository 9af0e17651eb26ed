#include "server/shard/storage/log_segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/byte_text.h"
#include "common/base/fingerprint.h"
#include "server/shard/storage/fake_log_file.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::array<std::byte, kLogSegmentHeaderBytes> Header() {
  std::array<std::byte, kLogSegmentHeaderBytes> bytes;
  EncodeLogSegmentHeader({.segment_id = 3, .first_lsn = 17, .previous_bytes = 1000},
                         absl::MakeSpan(bytes));
  return bytes;
}

// A record as it is stored.
std::string Record(uint64_t segment_id, uint64_t lsn, const std::string& header,
                   const std::string& payload) {
  std::array<std::byte, kLogRecordHeadBytes> head;
  EncodeLogRecordHead({.header_bytes = static_cast<uint32_t>(header.size()),
                       .payload_bytes = static_cast<uint32_t>(payload.size()),
                       .lsn = lsn,
                       .synced_lsn = lsn - 1,
                       .checksum = Fingerprint(header + payload)},
                      segment_id, absl::MakeSpan(head));
  std::string record = std::string(AsText(absl::MakeConstSpan(head))) + header;
  record.append(LogPaddingBytes(header.size()), '\0');
  record += payload;
  record.append(LogPaddingBytes(payload.size()), '\0');
  EXPECT_EQ(record.size(), LogRecordBytes(header.size(), payload.size()));
  return record;
}

TEST(LogSegmentTest, HeaderReadsBack) {
  const auto bytes = Header();
  const auto header = DecodeLogSegmentHeader(absl::MakeConstSpan(bytes), "/log/3");
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->segment_id, 3u);
  EXPECT_EQ(header->first_lsn, 17u);
  EXPECT_EQ(header->previous_bytes, 1000u);
}

TEST(LogSegmentTest, EveryDamagedBitOfTheHeaderIsFound) {
  for (size_t bit = 0; bit < 8 * kLogSegmentHeaderBytes; ++bit) {
    auto bytes = Header();
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    const absl::Status status =
        DecodeLogSegmentHeader(absl::MakeConstSpan(bytes), "/log/3").status();
    // The version's own bytes look like a newer format.
    if (absl::IsFailedPrecondition(status) && bit / 8 >= 8 && bit / 8 < 12) continue;
    ASSERT_TRUE(absl::IsDataLoss(status)) << bit << ": " << status;
    ASSERT_THAT(status.message(), HasSubstr("/log/3"));
  }
  const auto bytes = Header();
  EXPECT_TRUE(
      absl::IsDataLoss(DecodeLogSegmentHeader(absl::MakeConstSpan(bytes).first(47), "x").status()));
}

TEST(LogSegmentTest, NewerFormatIsRefusedByName) {
  auto bytes = Header();
  bytes[8] = std::byte{2};
  const absl::Status status = DecodeLogSegmentHeader(absl::MakeConstSpan(bytes), "/log/3").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("format version 2, written by a later release of Muster; "
                                          "this one reads formats up to 1"));
}

TEST(LogSegmentTest, HeadBelongsToOneSegment) {
  const std::string record = Record(3, 17, "h", "p");
  const auto head = DecodeLogRecordHead(AsBytes(record), 3);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->lsn, 17u);
  EXPECT_EQ(head->synced_lsn, 16u);
  EXPECT_FALSE(DecodeLogRecordHead(AsBytes(record), 4).has_value());
  EXPECT_FALSE(DecodeLogRecordHead(AsBytes(record).first(47), 3).has_value());
}

class LogSegmentReaderTest : public ::testing::Test {
 protected:
  LogSegmentReader Reader(const std::string& contents) {
    EXPECT_TRUE(files_.CreateDirectory("/log").ok());
    file_ = files_.Open("/log/3", LogFileSystem::Mode::kCreate).value();
    EXPECT_TRUE(file_->Write(0, {AsBytes(contents)}).ok());
    return LogSegmentReader(*file_, 3, contents.size());
  }

  FakeLogFileSystem files_;
  std::unique_ptr<LogFile> file_;
};

TEST_F(LogSegmentReaderTest, ReadsRecordsOfAllSizes) {
  std::string contents(kLogSegmentHeaderBytes, 'x');
  std::vector<size_t> offsets;
  uint64_t lsn = 17;
  // The largest is larger than the reader's window.
  const size_t sizes[] = {0, 1, 7, 8, 9, 1000, 3 << 20, 5};
  for (const size_t size : sizes) {
    offsets.push_back(contents.size());
    contents += Record(3, lsn++, std::string(size % 11, 'h'), std::string(size, 'p'));
  }
  LogSegmentReader reader = Reader(contents);
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto record = reader.ReadAt(offsets[i]);
    ASSERT_TRUE(record.ok() && record->has_value()) << i;
    EXPECT_EQ((*record)->head.lsn, 17 + i);
    EXPECT_EQ(std::string(AsText((*record)->header)), std::string(sizes[i] % 11, 'h'));
    EXPECT_EQ(std::string(AsText((*record)->payload)), std::string(sizes[i], 'p'));
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*record)->payload.data()) % 8, 0u);
    EXPECT_EQ((*record)->end(), i + 1 < offsets.size() ? offsets[i + 1] : contents.size());
  }
  EXPECT_FALSE(reader.ReadAt(contents.size())->has_value());
  EXPECT_FALSE(reader.ReadAt(contents.size() + 8)->has_value());
}

TEST_F(LogSegmentReaderTest, EveryDamagedBitOfARecordIsFound) {
  const std::string sound =
      std::string(kLogSegmentHeaderBytes, 'x') + Record(3, 17, "hhh", "ppppp");
  for (size_t bit = 8 * kLogSegmentHeaderBytes; bit < 8 * sound.size(); ++bit) {
    std::string damaged = sound;
    damaged[bit / 8] ^= 1 << bit % 8;
    const size_t at = bit / 8 - kLogSegmentHeaderBytes - kLogRecordHeadBytes;
    // Padding carries nothing.
    const bool padding = bit / 8 >= kLogSegmentHeaderBytes + kLogRecordHeadBytes &&
                         ((at >= 3 && at < 8) || at >= 13);
    LogSegmentReader reader = Reader(damaged);
    const auto record = reader.ReadAt(kLogSegmentHeaderBytes);
    ASSERT_TRUE(record.ok());
    ASSERT_EQ(record->has_value(), padding) << bit;
  }
}

TEST_F(LogSegmentReaderTest, SearchFindsTheNextGoodRecordOfThisSegment) {
  std::string contents(kLogSegmentHeaderBytes, 'x');
  contents += std::string(2 << 20, 'g');
  contents += Record(2, 30, "other", "segment");
  contents += Record(3, 16, "old", "lsn");
  std::string damaged = Record(3, 20, "damaged", "payload");
  damaged[60] ^= 1;
  contents += damaged;
  const size_t expected = contents.size();
  contents += Record(3, 21, "good", "payload");
  LogSegmentReader reader = Reader(contents);
  const auto found = reader.Search(kLogSegmentHeaderBytes, 16);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->offset, expected);
  EXPECT_EQ(std::string(AsText((*found)->header)), "good");
  EXPECT_FALSE(reader.Search((*found)->end(), 16)->has_value());
  EXPECT_FALSE(reader.Search(kLogSegmentHeaderBytes, 21)->has_value());
}

// Counts what is read.
class CountingFile final : public LogFile {
 public:
  explicit CountingFile(std::string contents) : contents_(std::move(contents)) {}

  absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<std::byte> out) override {
    const size_t bytes = contents_.copy(reinterpret_cast<char*>(out.data()), out.size(), offset);
    bytes_read += bytes;
    return bytes;
  }
  absl::StatusOr<size_t> Write(uint64_t, absl::Span<const absl::Span<const std::byte>>) override {
    return absl::InternalError("only read");
  }
  absl::Status WriteBlocks(uint64_t, absl::Span<const absl::Span<const std::byte>>) override {
    return absl::InternalError("only read");
  }
  bool keeps_space() const override { return false; }
  absl::Status Allocate(uint64_t) override { return absl::InternalError("only read"); }
  absl::Status Sync() override { return absl::InternalError("only read"); }
  absl::StatusOr<uint64_t> Size() override { return contents_.size(); }

  uint64_t bytes_read = 0;

 private:
  const std::string contents_;
};

TEST(LogSegmentReaderCostTest, EachByteIsReadOnce) {
  // Records that end anywhere in the reader's window, and a rest of the file behind them.
  for (const size_t size : {size_t{100}, size_t{3} << 20, size_t{9} << 20}) {
    std::string contents(kLogSegmentHeaderBytes, 'x');
    const int records = size > 1000 ? 5 : 1000;
    for (int i = 0; i < records; ++i) contents += Record(3, 17 + i, "h", std::string(size, 'p'));
    const uint64_t end = contents.size();
    contents.resize(end + (20 << 20));

    CountingFile in_order(contents);
    LogSegmentReader reader(in_order, 3, contents.size());
    uint64_t offset = kLogSegmentHeaderBytes;
    while (offset < end) offset = (*reader.ReadAt(offset))->end();
    EXPECT_LE(in_order.bytes_read, contents.size()) << size;

    CountingFile searched(contents);
    LogSegmentReader searcher(searched, 3, contents.size());
    int found = 0;
    for (uint64_t at = kLogSegmentHeaderBytes;; ++found) {
      const auto record = searcher.Search(at, 0);
      ASSERT_TRUE(record.ok()) << record.status();
      if (!record->has_value()) break;
      at = (*record)->end();
    }
    EXPECT_EQ(found, records);
    EXPECT_LE(searched.bytes_read, contents.size()) << size;
  }
}

}  // namespace
}  // namespace muster
