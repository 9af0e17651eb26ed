#include "common/checkpoint/partition_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/fingerprint.h"
#include "common/checkpoint/memory_storage.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "/checkpoints/job-1/7";
constexpr char kUri[] = "/checkpoints/job-1/7/file";

// Two dense pieces with one slot, two sparse tables.
v1::PartitionFileHeader Header(uint64_t rows) {
  v1::PartitionFileHeader header;
  header.set_job_id("job-1");
  header.set_partition(3);
  header.set_clock(7);
  header.add_optimizer_slots("momentum");
  v1::DensePiece& a = *header.add_dense();
  a.set_tensor("a");
  a.set_begin(2);
  a.set_end(5);
  a.set_steps(9);
  v1::DensePiece& b = *header.add_dense();
  b.set_tensor("b");
  b.set_end(1);
  v1::SparsePiece& e = *header.add_sparse();
  e.set_table("e");
  e.set_rows(rows);
  e.set_width(2);
  v1::SparsePiece& f = *header.add_sparse();
  f.set_table("f");
  f.set_width(4);
  return header;
}

std::unique_ptr<PartitionFileWriter> NewWriter(CheckpointStorage& storage,
                                               const v1::PartitionFileHeader& header) {
  auto writer = PartitionFileWriter::Create(storage, kFolder, "file", header);
  EXPECT_TRUE(writer.ok()) << writer.status();
  return *std::move(writer);
}

PartitionFileInfo WriteTwoRows(CheckpointStorage& storage) {
  const auto writer = NewWriter(storage, Header(2));
  EXPECT_TRUE(writer->AppendDense({1, 2, 3}, {{4, 5, 6}}).ok());
  EXPECT_TRUE(writer->AppendDense({7}, {{8}}).ok());
  EXPECT_TRUE(writer->AppendKeys({11, 12}).ok());
  EXPECT_TRUE(writer->AppendSteps({13, 14}).ok());
  EXPECT_TRUE(writer->AppendLastUse({15, 16}).ok());
  EXPECT_TRUE(writer->AppendValues({17, 18, 19, 20}).ok());
  const auto info = writer->Finish();
  EXPECT_TRUE(info.ok()) << info.status();
  return *info;
}

template <typename T>
void Add(std::string& out, std::initializer_list<T> values) {
  for (const T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// The stored bytes, written out by hand from the description of the format.
TEST(PartitionFileTest, HasTheDocumentedLayout) {
  MemoryStorage storage;
  const PartitionFileInfo info = WriteTwoRows(storage);
  v1::PartitionFileHeader header = Header(2);
  header.set_format_version(1);
  std::string expected;
  Add<uint64_t>(expected, {header.ByteSizeLong()});
  expected += header.SerializeAsString();
  Add<float>(expected, {1, 2, 3, 4, 5, 6, 7, 8});
  Add<uint64_t>(expected, {11, 12});
  Add<uint32_t>(expected, {13, 14, 15, 16});
  Add<float>(expected, {17, 18, 19, 20});
  EXPECT_EQ(ReadFile(storage, kUri).value(), expected);
  EXPECT_EQ(info.path, "file");
  EXPECT_EQ(info.bytes, expected.size());
  EXPECT_EQ(info.checksum, Fingerprint(expected));
}

TEST(PartitionFileTest, ReadsWhatWasWritten) {
  MemoryStorage storage;
  WriteTwoRows(storage);
  const auto reader = PartitionFileReader::Open(storage, kUri);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->header().partition(), 3u);
  EXPECT_EQ((*reader)->header().dense(0).steps(), 9u);
  std::vector<float> values(2);
  ASSERT_TRUE((*reader)->ReadDense(0, 0, 1, absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ElementsAre(2, 3));
  ASSERT_TRUE((*reader)->ReadDense(0, 1, 0, absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ElementsAre(4, 5));
  ASSERT_TRUE((*reader)->ReadDense(1, 1, 0, absl::MakeSpan(values).first(1)).ok());
  EXPECT_EQ(values[0], 8);
  int calls = 0;
  ASSERT_TRUE((*reader)
                  ->ReadSparse(0,
                               [&calls](const StoredRows& rows) {
                                 ++calls;
                                 EXPECT_THAT(rows.keys, ElementsAre(11, 12));
                                 EXPECT_THAT(rows.steps, ElementsAre(13, 14));
                                 EXPECT_THAT(rows.last_use, ElementsAre(15, 16));
                                 EXPECT_THAT(rows.values, ElementsAre(17, 18, 19, 20));
                                 EXPECT_THAT(rows.row(1), ElementsAre(19, 20));
                                 return absl::OkStatus();
                               })
                  .ok());
  // The empty table has no rows to visit.
  ASSERT_TRUE((*reader)
                  ->ReadSparse(1,
                               [&calls](const StoredRows&) {
                                 ++calls;
                                 return absl::OkStatus();
                               })
                  .ok());
  EXPECT_EQ(calls, 1);
}

TEST(PartitionFileTest, ManyRowsComeInChunks) {
  constexpr uint64_t kRows = 500000;
  MemoryStorage storage;
  {
    const auto writer = NewWriter(storage, Header(kRows));
    ASSERT_TRUE(writer->AppendDense({1, 2, 3}, {{4, 5, 6}}).ok());
    ASSERT_TRUE(writer->AppendDense({7}, {{8}}).ok());
    for (uint64_t i = 0; i < kRows; ++i) ASSERT_TRUE(writer->AppendKeys({i * i}).ok());
    for (uint32_t i = 0; i < kRows; ++i) ASSERT_TRUE(writer->AppendSteps({i}).ok());
    for (uint32_t i = 0; i < kRows; ++i) ASSERT_TRUE(writer->AppendLastUse({2 * i}).ok());
    for (uint32_t i = 0; i < kRows; ++i) {
      ASSERT_TRUE(writer->AppendValues({1.0f * i, 0.5f * i}).ok());
    }
    ASSERT_TRUE(writer->Finish().ok());
  }
  const auto reader = PartitionFileReader::Open(storage, kUri);
  uint64_t row = 0;
  int chunks = 0;
  ASSERT_TRUE((*reader)
                  ->ReadSparse(0,
                               [&](const StoredRows& rows) {
                                 ++chunks;
                                 for (size_t i = 0; i < rows.size(); ++i, ++row) {
                                   EXPECT_EQ(rows.keys[i], row * row);
                                   EXPECT_EQ(rows.steps[i], row);
                                   EXPECT_EQ(rows.last_use[i], 2 * row);
                                   EXPECT_EQ(rows.row(i)[0], 1.0f * row);
                                   EXPECT_EQ(rows.row(i)[1], 0.5f * row);
                                 }
                                 return absl::OkStatus();
                               })
                  .ok());
  EXPECT_EQ(row, kRows);
  EXPECT_GT(chunks, 1);
  row = 0;
  ASSERT_TRUE((*reader)
                  ->ReadKeys(0,
                             [&row](absl::Span<const uint64_t> keys) {
                               for (const uint64_t key : keys) {
                                 EXPECT_EQ(key, row * row);
                                 ++row;
                               }
                               return absl::OkStatus();
                             })
                  .ok());
  EXPECT_EQ(row, kRows);
}

TEST(PartitionFileTest, RefusesWhatDoesNotFitTheHeader) {
  MemoryStorage storage;
  {
    const auto writer = NewWriter(storage, Header(2));
    const absl::Status status = writer->AppendKeys({11});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("3 values of a dense piece come next"));
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(NewWriter(storage, Header(2))->AppendDense({1, 2}, {{4, 5}})));
  EXPECT_TRUE(
      absl::IsInvalidArgument(NewWriter(storage, Header(2))->AppendDense({1, 2, 3}, {{4, 5}})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      NewWriter(storage, Header(2))->AppendDense({1, 2, 3, 4}, {{5, 6, 7, 8}})));
  const auto writer = NewWriter(storage, Header(0));
  ASSERT_TRUE(writer->AppendDense({1, 2, 3}, {{4, 5, 6}}).ok());
  const absl::Status unfinished = writer->Finish().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(unfinished)) << unfinished;
  EXPECT_THAT(unfinished.message(), HasSubstr("1 values of a dense piece are missing"));
  ASSERT_TRUE(writer->AppendDense({7}, {{8}}).ok());
  const absl::Status beyond = writer->AppendKeys({1});
  EXPECT_TRUE(absl::IsInvalidArgument(beyond)) << beyond;
  EXPECT_THAT(beyond.message(), HasSubstr("complete by its header"));
  ASSERT_TRUE(writer->Finish().ok());
}

TEST(PartitionFileTest, IsInvisibleUntilFinished) {
  MemoryStorage storage;
  {
    const auto writer = NewWriter(storage, Header(0));
    ASSERT_TRUE(writer->AppendDense({1, 2, 3}, {{4, 5, 6}}).ok());
    EXPECT_FALSE(storage.Exists(kUri).value());
  }
  EXPECT_FALSE(storage.Exists(kUri).value());
}

TEST(PartitionFileTest, EveryTruncationIsDataLossThatNamesTheFile) {
  MemoryStorage storage;
  WriteTwoRows(storage);
  const std::string sound = ReadFile(storage, kUri).value();
  for (size_t length = 0; length < sound.size(); ++length) {
    ASSERT_TRUE(WriteFile(storage, kUri, sound.substr(0, length)).ok());
    const absl::Status status = PartitionFileReader::Open(storage, kUri).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << length << ": " << status;
    ASSERT_THAT(status.message(), HasSubstr(kUri));
  }
  ASSERT_TRUE(WriteFile(storage, kUri, sound + "x").ok());
  EXPECT_TRUE(absl::IsDataLoss(PartitionFileReader::Open(storage, kUri).status()));
}

TEST(PartitionFileTest, AbsurdNumbersInTheHeaderAreDataLoss) {
  MemoryStorage storage;
  v1::PartitionFileHeader header = Header(0);
  header.mutable_sparse(0)->set_rows(uint64_t{1} << 61);
  header.mutable_sparse(0)->set_width(1 << 31);
  std::string bytes;
  Add<uint64_t>(bytes, {header.ByteSizeLong()});
  bytes += header.SerializeAsString();
  ASSERT_TRUE(WriteFile(storage, kUri, bytes).ok());
  EXPECT_TRUE(absl::IsDataLoss(PartitionFileReader::Open(storage, kUri).status()));

  header = Header(0);
  header.mutable_dense(0)->set_begin(6);
  bytes.clear();
  Add<uint64_t>(bytes, {header.ByteSizeLong()});
  bytes += header.SerializeAsString();
  ASSERT_TRUE(WriteFile(storage, kUri, bytes).ok());
  EXPECT_TRUE(absl::IsDataLoss(PartitionFileReader::Open(storage, kUri).status()));
}

TEST(PartitionFileTest, ANewerFormatIsRefusedByName) {
  MemoryStorage storage;
  v1::PartitionFileHeader header = Header(0);
  header.set_format_version(2);
  std::string bytes;
  Add<uint64_t>(bytes, {header.ByteSizeLong()});
  bytes += header.SerializeAsString();
  ASSERT_TRUE(WriteFile(storage, kUri, bytes).ok());
  const absl::Status status = PartitionFileReader::Open(storage, kUri).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("format version 2"));
}

}  // namespace
}  // namespace muster
