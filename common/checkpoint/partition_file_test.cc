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

// Two dense pieces with one state array, two sparse tables.
v1::PartitionFileHeader Header(uint64_t rows = 0) {
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

absl::Status AppendDensePieces(PartitionFileWriter& writer) {
  absl::Status status = writer.AppendDense({1, 2, 3}, {{4, 5, 6}});
  status.Update(writer.AppendDense({7}, {{8}}));
  return status;
}

PartitionFileInfo WriteTwoRows(CheckpointStorage& storage) {
  const auto writer = NewWriter(storage, Header());
  EXPECT_TRUE(AppendDensePieces(*writer).ok());
  EXPECT_TRUE(writer
                  ->AppendRows(0, {.keys = {11, 12},
                                   .steps = {13, 14},
                                   .last_use = {15, 16},
                                   .values = {17, 18, 19, 20},
                                   .width = 2})
                  .ok());
  const auto info = writer->Finish();
  EXPECT_TRUE(info.ok()) << info.status();
  return *info;
}

template <typename T>
void Add(std::string& out, std::initializer_list<T> values) {
  for (const T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// What version 1 wrote: the header in front, all rows of a table in one group.
std::string Version1File() {
  v1::PartitionFileHeader header = Header(2);
  header.set_format_version(1);
  std::string bytes;
  Add<uint64_t>(bytes, {header.ByteSizeLong()});
  bytes += header.SerializeAsString();
  Add<float>(bytes, {1, 2, 3, 4, 5, 6, 7, 8});
  Add<uint64_t>(bytes, {11, 12});
  Add<uint32_t>(bytes, {13, 14, 15, 16});
  Add<float>(bytes, {17, 18, 19, 20});
  return bytes;
}

// The stored bytes, written out by hand from the description of the format.
TEST(PartitionFileTest, HasTheDocumentedLayout) {
  MemoryStorage storage;
  const PartitionFileInfo info = WriteTwoRows(storage);
  v1::PartitionFileHeader header = Header(2);
  header.set_format_version(2);
  header.mutable_sparse(0)->add_group_rows(2);
  std::string expected;
  Add<uint64_t>(expected, {0xFFFFFFFF4B43534D});
  Add<float>(expected, {1, 2, 3, 4, 5, 6, 7, 8});
  Add<uint64_t>(expected, {11, 12});
  Add<uint32_t>(expected, {13, 14, 15, 16});
  Add<float>(expected, {17, 18, 19, 20});
  const std::string message = header.SerializeAsString();
  expected += message;
  Add<uint64_t>(expected, {Fingerprint(message), message.size()});
  EXPECT_EQ(ReadFile(storage, kUri).value(), expected);
  EXPECT_EQ(info.path, "file");
  EXPECT_EQ(info.bytes, expected.size());
  EXPECT_EQ(info.checksum, Fingerprint(expected));
}

class PartitionFileVersionTest : public ::testing::TestWithParam<int> {};

TEST_P(PartitionFileVersionTest, ReadsWhatWasWritten) {
  MemoryStorage storage;
  if (GetParam() == 2) {
    WriteTwoRows(storage);
  } else {
    ASSERT_TRUE(ReplaceFile(storage, kUri, Version1File()).ok());
  }
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

INSTANTIATE_TEST_SUITE_P(Versions, PartitionFileVersionTest, ::testing::Values(1, 2));

TEST(PartitionFileTest, ManyRowsComeInChunksWhateverTheirGroups) {
  constexpr uint64_t kRows = 500000;
  MemoryStorage storage;
  {
    const auto writer = NewWriter(storage, Header());
    ASSERT_TRUE(AppendDensePieces(*writer).ok());
    std::vector<uint64_t> keys(kRows);
    std::vector<uint32_t> steps(kRows), last_use(kRows);
    std::vector<float> values(2 * kRows);
    for (uint64_t i = 0; i < kRows; ++i) {
      keys[i] = i * i;
      steps[i] = i;
      last_use[i] = 2 * i;
      values[2 * i] = 1.0f * i;
      values[2 * i + 1] = 0.5f * i;
    }
    // One row, some, and more than a reader takes at once.
    for (const auto& [first, last] : {std::pair<size_t, size_t>{0, 1}, {1, 1000}, {1000, kRows}}) {
      const size_t n = last - first;
      ASSERT_TRUE(writer
                      ->AppendRows(0, {.keys = absl::MakeSpan(keys).subspan(first, n),
                                       .steps = absl::MakeSpan(steps).subspan(first, n),
                                       .last_use = absl::MakeSpan(last_use).subspan(first, n),
                                       .values = absl::MakeSpan(values).subspan(2 * first, 2 * n),
                                       .width = 2})
                      .ok());
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
  EXPECT_GT(chunks, 3);
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

TEST(PartitionFileTest, KeepsDroppedKeysAndPiecesWithoutState) {
  MemoryStorage storage;
  v1::PartitionFileHeader header = Header();
  header.set_base_clock(4);
  v1::DensePiece& residual = *header.add_dense();
  residual.set_tensor("residual/1/a");
  residual.set_end(2);
  residual.set_no_slots(true);
  header.mutable_sparse(1)->set_width(0);
  const auto writer = NewWriter(storage, header);
  ASSERT_TRUE(AppendDensePieces(*writer).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      NewWriter(storage, header)->AppendRows(0, {.keys = {}, .steps = {}, .last_use = {}})));
  ASSERT_TRUE(writer->AppendDense({30, 31}, {}).ok());
  ASSERT_TRUE(writer->AppendDropped(0, {21}).ok());
  ASSERT_TRUE(writer->AppendDropped(0, {22, 23}).ok());
  ASSERT_TRUE(
      writer->AppendRows(1, {.keys = {5}, .steps = {6}, .last_use = {7}, .values = {}, .width = 0})
          .ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto reader = PartitionFileReader::Open(storage, kUri);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->header().base_clock(), 4u);
  float value = 0;
  ASSERT_TRUE((*reader)->ReadDense(2, 0, 1, {&value, 1}).ok());
  EXPECT_EQ(value, 31);
  std::vector<uint64_t> dropped;
  ASSERT_TRUE((*reader)
                  ->ReadDropped(0,
                                [&](absl::Span<const uint64_t> keys) {
                                  dropped.insert(dropped.end(), keys.begin(), keys.end());
                                  return absl::OkStatus();
                                })
                  .ok());
  EXPECT_THAT(dropped, ElementsAre(21, 22, 23));
  ASSERT_TRUE((*reader)
                  ->ReadSparse(1,
                               [](const StoredRows& rows) {
                                 EXPECT_THAT(rows.keys, ElementsAre(5));
                                 EXPECT_THAT(rows.steps, ElementsAre(6));
                                 EXPECT_THAT(rows.last_use, ElementsAre(7));
                                 return absl::OkStatus();
                               })
                  .ok());
}

TEST(PartitionFileTest, RefusesWhatDoesNotFitTheHeader) {
  MemoryStorage storage;
  const std::vector<uint64_t> keys = {1};
  const std::vector<uint32_t> steps = {2}, last_use = {3};
  const std::vector<float> values = {4, 5};
  const StoredRows row = {
      .keys = keys, .steps = steps, .last_use = last_use, .values = values, .width = 2};
  const absl::Status early = NewWriter(storage, Header())->AppendRows(0, row);
  EXPECT_TRUE(absl::IsInvalidArgument(early)) << early;
  EXPECT_THAT(early.message(), HasSubstr("has 2 dense pieces and got 0"));
  EXPECT_TRUE(absl::IsInvalidArgument(NewWriter(storage, Header())->AppendDense({1, 2}, {{4, 5}})));
  EXPECT_TRUE(
      absl::IsInvalidArgument(NewWriter(storage, Header())->AppendDense({1, 2, 3}, {{4, 5}})));
  EXPECT_TRUE(absl::IsInvalidArgument(NewWriter(storage, Header())->AppendDense({1, 2, 3}, {})));
  const auto writer = NewWriter(storage, Header());
  ASSERT_TRUE(writer->AppendDense({1, 2, 3}, {{4, 5, 6}}).ok());
  const absl::Status unfinished = writer->Finish().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(unfinished)) << unfinished;
  EXPECT_THAT(unfinished.message(), HasSubstr("1 dense pieces are missing"));
  ASSERT_TRUE(writer->AppendDense({7}, {{8}}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(writer->AppendDense({7}, {{8}})));
  EXPECT_TRUE(absl::IsInvalidArgument(writer->AppendRows(2, row)));
  EXPECT_TRUE(absl::IsInvalidArgument(writer->AppendRows(1, row))) << "the table has width 4";
  EXPECT_TRUE(absl::IsInvalidArgument(writer->AppendRows(0, row))) << "piece 1 has begun";
  EXPECT_TRUE(absl::IsInvalidArgument(writer->AppendDropped(1, {1}))) << "it has no base";
}

TEST(PartitionFileTest, IsInvisibleUntilFinished) {
  MemoryStorage storage;
  {
    const auto writer = NewWriter(storage, Header());
    ASSERT_TRUE(writer->AppendDense({1, 2, 3}, {{4, 5, 6}}).ok());
    EXPECT_FALSE(storage.Exists(kUri).value());
  }
  EXPECT_FALSE(storage.Exists(kUri).value());
}

TEST_P(PartitionFileVersionTest, EveryTruncationIsDataLossThatNamesTheFile) {
  MemoryStorage storage;
  WriteTwoRows(storage);
  const std::string sound = GetParam() == 1 ? Version1File() : ReadFile(storage, kUri).value();
  for (size_t length = 0; length < sound.size(); ++length) {
    ASSERT_TRUE(ReplaceFile(storage, kUri, sound.substr(0, length)).ok());
    const absl::Status status = PartitionFileReader::Open(storage, kUri).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << length << ": " << status;
    ASSERT_THAT(status.message(), HasSubstr(kUri));
  }
  ASSERT_TRUE(ReplaceFile(storage, kUri, sound + "x").ok());
  EXPECT_TRUE(absl::IsDataLoss(PartitionFileReader::Open(storage, kUri).status()));
}

std::string Version2File(v1::PartitionFileHeader header, uint32_t version) {
  header.set_format_version(version);
  const std::string message = header.SerializeAsString();
  std::string bytes;
  Add<uint64_t>(bytes, {kPartitionFileMagic});
  bytes += message;
  Add<uint64_t>(bytes, {Fingerprint(message), message.size()});
  return bytes;
}

TEST(PartitionFileTest, AbsurdNumbersInTheHeaderAreDataLoss) {
  MemoryStorage storage;
  v1::PartitionFileHeader many = Header();
  many.mutable_sparse(0)->set_rows(uint64_t{1} << 61);
  many.mutable_sparse(0)->add_group_rows(uint64_t{1} << 61);
  many.mutable_sparse(0)->set_width(1 << 31);
  v1::PartitionFileHeader backwards = Header();
  backwards.mutable_dense(0)->set_begin(6);
  v1::PartitionFileHeader groups = Header();
  groups.mutable_dense()->Clear();
  groups.mutable_sparse(0)->set_rows(1);
  for (const v1::PartitionFileHeader& header : {many, backwards, groups}) {
    ASSERT_TRUE(ReplaceFile(storage, kUri, Version2File(header, 2)).ok());
    const absl::Status status = PartitionFileReader::Open(storage, kUri).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
}

// A sparse file has as many bytes as its header says, and rows are read into memory whole.
TEST(PartitionFileTest, RowsWiderThanAnyTableAreDataLoss) {
  MemoryStorage storage;
  v1::PartitionFileHeader wide = Header();
  wide.mutable_sparse(0)->set_width((1 << 20) + 1);
  ASSERT_TRUE(WriteFile(storage, kUri, Version2File(wide, 2)).ok());
  const absl::Status status = PartitionFileReader::Open(storage, kUri).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rows of 1048577 values"));
}

TEST(PartitionFileTest, ANewerFormatIsRefusedByName) {
  MemoryStorage storage;
  ASSERT_TRUE(ReplaceFile(storage, kUri, Version2File(Header(), 3)).ok());
  const absl::Status status = PartitionFileReader::Open(storage, kUri).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("format version 3"));
}

}  // namespace
}  // namespace muster
