#include "common/checkpoint/checkpoint_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/checkpoint/test_checkpoint.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointReaderTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteTestCheckpoint(storage_, kTestFolder, GetParam()).ok());
  }

  std::unique_ptr<CheckpointReader> OpenReader() {
    absl::StatusOr<std::unique_ptr<CheckpointReader>> reader =
        CheckpointReader::Open(storage_, kTestFolder);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  std::string FileUri(uint32_t partition) {
    return JoinUri(kTestFolder, PartitionFileName(partition, 2));
  }

  // Changes one byte of a file.
  void Damage(const std::string& uri, size_t offset) {
    std::string bytes = ReadFile(storage_, uri).value();
    bytes.at(offset) ^= 1;
    ASSERT_TRUE(ReplaceFile(storage_, uri, bytes).ok());
  }

  MemoryStorage storage_;
};

TEST_P(CheckpointReaderTest, ReadsEveryRangeOfEveryTensorAndState) {
  const std::unique_ptr<CheckpointReader> reader = OpenReader();
  EXPECT_THAT(reader->state_names(), ElementsAre("m", "v"));
  EXPECT_EQ(reader->manifest().clock(), 7u);
  const std::pair<const char*, uint64_t> tensors[] = {{"a", 24}, {"b", 5}, {"s", 1}};
  const char* const state_names[] = {"", "m", "v"};
  for (const auto& [name, elements] : tensors) {
    for (int array = 0; array < 3; ++array) {
      for (uint64_t begin = 0; begin <= elements; ++begin) {
        for (uint64_t end = begin; end <= elements; ++end) {
          std::vector<float> values(end - begin);
          ASSERT_TRUE(
              reader->ReadTensor(name, state_names[array], begin, absl::MakeSpan(values)).ok());
          for (uint64_t i = begin; i < end; ++i) {
            ASSERT_EQ(values[i - begin], TestElement(name, array, i)) << name << " " << i;
          }
        }
      }
    }
  }
}

TEST_P(CheckpointReaderTest, ReadsWhatServersHeldForAProgram) {
  absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(storage_, kTestFolder);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  manifest->set_program(true);
  for (v1::CheckpointFile& file : *manifest->mutable_files()) {
    file.set_name(ServedFileName(file.partition()));
  }
  // A program's own file, which is first in order of name.
  ASSERT_TRUE(WriteFile(storage_, JoinUri(kTestFolder, "partition-x"), "own").ok());
  v1::CheckpointFile own;
  own.set_name("a");
  own.set_path("partition-x");
  own.set_bytes(3);
  *manifest->add_files() = own;
  auto& files = *manifest->mutable_files();
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  for (int i = 0; i < files.size(); ++i) files[i].set_partition(i);
  ASSERT_TRUE(DeleteManifest(storage_, kTestFolder).ok());
  ASSERT_TRUE(WriteManifest(storage_, kTestFolder, *manifest).ok());

  const std::unique_ptr<CheckpointReader> reader = OpenReader();
  std::vector<float> values(24);
  ASSERT_TRUE(reader->ReadTensor("a", "", 0, absl::MakeSpan(values)).ok());
  for (uint64_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], TestElement("a", 0, i));
  EXPECT_EQ(reader->SparseRowCount("e").value(), kTestRows);

  // Without a schema there was no server.
  manifest->clear_schema();
  ASSERT_TRUE(DeleteManifest(storage_, kTestFolder).ok());
  ASSERT_TRUE(WriteManifest(storage_, kTestFolder, *manifest).ok());
  EXPECT_EQ(CheckpointReader::Open(storage_, kTestFolder).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(CheckpointReaderTest, ReadsSparseRows) {
  const std::unique_ptr<CheckpointReader> reader = OpenReader();
  uint64_t k = 0;
  const absl::Status status = reader->ReadSparse("e", std::nullopt, [&](const StoredRows& rows) {
    EXPECT_EQ(rows.width, kTestRowWidth);
    for (size_t i = 0; i < rows.size(); ++i, ++k) {
      EXPECT_EQ(rows.keys[i], 1000 * k);
      EXPECT_EQ(rows.steps[i], 100 + k);
      EXPECT_EQ(rows.last_use[i], 200 + k);
      for (uint32_t j = 0; j < kTestRowWidth; ++j) {
        EXPECT_EQ(rows.row(i)[j], TestRowValue(1000 * k, j));
      }
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(k, kTestRows);
  EXPECT_EQ(reader->SparseRowCount("e").value(), kTestRows);
  EXPECT_EQ(reader->SparseRowCount("f").value(), 0u);
}

TEST_P(CheckpointReaderTest, ReadsSparseRowsOfOnePartition) {
  const std::unique_ptr<CheckpointReader> reader = OpenReader();
  uint64_t k = 0;
  for (uint32_t partition = 0; partition < GetParam(); ++partition) {
    ASSERT_TRUE(reader
                    ->ReadSparse("e", partition,
                                 [&](const StoredRows& rows) {
                                   for (const uint64_t key : rows.keys) {
                                     EXPECT_EQ(key, 1000 * k++);
                                   }
                                   return absl::OkStatus();
                                 })
                    .ok());
    EXPECT_EQ(k, kTestRows * (partition + 1) / GetParam());
  }
  EXPECT_TRUE(absl::IsNotFound(
      reader->ReadSparse("e", GetParam(), [](const StoredRows&) { return absl::OkStatus(); })));
}

TEST_P(CheckpointReaderTest, VisitorsErrorEndsTheRead) {
  const std::unique_ptr<CheckpointReader> reader = OpenReader();
  int calls = 0;
  const absl::Status status = reader->ReadSparse("e", std::nullopt, [&](const StoredRows&) {
    ++calls;
    return absl::CancelledError("enough");
  });
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_EQ(calls, 1);
}

TEST_P(CheckpointReaderTest, StepsAreTheLargestOfTheRange) {
  const std::unique_ptr<CheckpointReader> reader = OpenReader();
  EXPECT_EQ(reader->TensorSteps("a", {}, 0, 24).value(), 10 + GetParam() - 1);
  // The first of 30 partitions has none of the 24 elements.
  EXPECT_EQ(reader->TensorSteps("a", {}, 0, 1).value(), GetParam() <= 24 ? 10u : 11u);
}

TEST_P(CheckpointReaderTest, LossScalesGoToAnyNumberOfSlots) {
  const std::unique_ptr<CheckpointReader> reader = OpenReader();
  for (const uint32_t slot : {0, 1, 2, 5}) {
    EXPECT_EQ(reader->ReadLossScale(slot).value(), TestLossScale(slot % 2)) << slot;
  }
  Damage(FileUri(GetParam() - 1), 8);
  EXPECT_TRUE(absl::IsDataLoss(OpenReader()->ReadLossScale(0).status()));
}

TEST_P(CheckpointReaderTest, NamesWhatIsNotThere) {
  const std::unique_ptr<CheckpointReader> reader = OpenReader();
  std::vector<float> values(3);
  absl::Status status = reader->ReadTensor("c", "", 0, absl::MakeSpan(values));
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(status.message(), HasSubstr("'c'"));
  status = reader->ReadTensor("a", "momentum", 0, absl::MakeSpan(values));
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(status.message(), HasSubstr("[m, v]"));
  status = reader->ReadTensor("b", "", 3, absl::MakeSpan(values));
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_THAT(status.message(), HasSubstr("it has 5"));
  EXPECT_TRUE(absl::IsNotFound(reader->SparseRowCount("g").status()));
}

TEST_P(CheckpointReaderTest, AnyDamagedByteOfAFileIsDataLossAndNamesIt) {
  const uint32_t victim = GetParam() - 1;
  const size_t bytes = ReadFile(storage_, FileUri(victim)).value().size();
  for (size_t offset = 0; offset < bytes; ++offset) {
    Damage(FileUri(victim), offset);
    absl::StatusOr<std::unique_ptr<CheckpointReader>> reader =
        CheckpointReader::Open(storage_, kTestFolder);
    absl::Status status = reader.status();
    std::vector<float> values(24);
    if (status.ok()) status = (*reader)->ReadTensor("a", "", 0, absl::MakeSpan(values));
    ASSERT_FALSE(status.ok()) << "byte " << offset;
    // A format version above today's is refused before the checksum is known.
    if (!absl::IsFailedPrecondition(status)) {
      ASSERT_TRUE(absl::IsDataLoss(status)) << "byte " << offset << ": " << status;
    }
    ASSERT_THAT(status.message(), HasSubstr(FileUri(victim)));
    Damage(FileUri(victim), offset);
  }
}

TEST_P(CheckpointReaderTest, TruncatedAndMissingFilesAreDataLoss) {
  const std::string bytes = ReadFile(storage_, FileUri(0)).value();
  for (const size_t length :
       {size_t{0}, size_t{7}, size_t{8}, bytes.size() / 2, bytes.size() - 1}) {
    ASSERT_TRUE(ReplaceFile(storage_, FileUri(0), bytes.substr(0, length)).ok());
    const absl::Status status = CheckpointReader::Open(storage_, kTestFolder).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(FileUri(0)));
  }
  ASSERT_TRUE(storage_.DeleteRecursively(FileUri(0)).ok());
  const absl::Status status = CheckpointReader::Open(storage_, kTestFolder).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(FileUri(0)));
}

INSTANTIATE_TEST_SUITE_P(Partitions, CheckpointReaderTest, ::testing::Values(1, 2, 3, 8, 30));

// Pieces that are rectangles, as tensor-parallel ranks write them.
class RectanglePiecesTest : public ::testing::Test {
 protected:
  // A 4 x 4 tensor "t" in column halves, one file each; the second one only from its element
  // `begin` on.
  void Write(uint64_t begin) {
    v1::CheckpointManifest manifest;
    manifest.set_job_id("job-1");
    manifest.set_clock(7);
    manifest.mutable_schema()->set_partitions(2);
    v1::TensorSchema& tensor = *manifest.mutable_schema()->add_tensors();
    tensor.set_name("t");
    tensor.add_shape(4);
    tensor.add_shape(4);
    for (int half = 0; half < 2; ++half) {
      v1::PartitionFileHeader header;
      header.set_job_id("job-1");
      header.set_clock(7);
      header.set_partition(half);
      v1::DensePiece& piece = *header.add_dense();
      piece.set_tensor("t");
      piece.add_start(0);
      piece.add_start(2 * half);
      piece.add_extent(4);
      piece.add_extent(2);
      piece.set_begin(half * begin);
      piece.set_end(8);
      std::vector<float> values;
      for (uint64_t i = piece.begin(); i < 8; ++i) values.push_back(i / 2 * 4 + 2 * half + i % 2);
      const auto writer =
          PartitionFileWriter::Create(storage_, kTestFolder, PartitionFileName(half, 1), header);
      ASSERT_TRUE((*writer)->AppendDense(values, {}).ok());
      const PartitionFileInfo info = (*writer)->Finish().value();
      v1::CheckpointFile& file = *manifest.add_files();
      file.set_partition(half);
      file.set_path(info.path);
      file.set_bytes(info.bytes);
      file.set_checksum(info.checksum);
    }
    ASSERT_TRUE(WriteManifest(storage_, kTestFolder, manifest).ok());
  }

  MemoryStorage storage_;
};

TEST_F(RectanglePiecesTest, AnyRectangleIsRead) {
  Write(0);
  const auto reader = CheckpointReader::Open(storage_, kTestFolder);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (int64_t top = 0; top < 4; ++top) {
    for (int64_t left = 0; left < 4; ++left) {
      for (int64_t rows = 1; rows <= 4 - top; ++rows) {
        for (int64_t columns = 1; columns <= 4 - left; ++columns) {
          const Rectangle rectangle = {{top, left}, {rows, columns}};
          const int64_t n = rows * columns;
          for (int64_t begin = 0; begin < n; ++begin) {
            std::vector<float> values(n - begin);
            ASSERT_TRUE(
                (*reader)->ReadRectangle("t", "", rectangle, begin, absl::MakeSpan(values)).ok());
            for (int64_t i = begin; i < n; ++i) {
              EXPECT_EQ(values[i - begin], (top + i / columns) * 4 + left + i % columns);
            }
          }
        }
      }
    }
  }
}

TEST_F(RectanglePiecesTest, RectanglesOutsideAreNamed) {
  Write(0);
  const auto reader = CheckpointReader::Open(storage_, kTestFolder);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> values(4);
  for (const Rectangle& rectangle :
       {Rectangle{{3, 0}, {2, 2}}, Rectangle{{0, 0}, {1, 3}}, Rectangle{{0}, {4}}}) {
    const absl::Status status =
        (*reader)->ReadRectangle("t", "", rectangle, 0, absl::MakeSpan(values));
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_THAT(status.message(), HasSubstr("the tensor's shape is [4, 4]"));
  }
}

TEST_F(RectanglePiecesTest, AreAssembled) {
  Write(0);
  const auto reader = CheckpointReader::Open(storage_, kTestFolder);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> values(11);
  ASSERT_TRUE((*reader)->ReadTensor("t", "", 3, absl::MakeSpan(values)).ok());
  for (int i = 0; i < 11; ++i) EXPECT_EQ(values[i], i + 3);
  EXPECT_EQ((*reader)->ReadLossScale(0).value(), std::nullopt);
}

TEST_F(RectanglePiecesTest, AGapIsDataLossThatNamesTheElement) {
  Write(3);
  const auto reader = CheckpointReader::Open(storage_, kTestFolder);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> values(16);
  const absl::Status status = (*reader)->ReadTensor("t", "", 0, absl::MakeSpan(values));
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(status.message(), HasSubstr("element 2 of tensor t"));
  // What is whole can still be read.
  EXPECT_TRUE((*reader)->ReadTensor("t", "", 7, absl::MakeSpan(values).first(9)).ok());
}

TEST(CheckpointReaderOpenTest, NoCheckpointIsNotFound) {
  MemoryStorage storage;
  EXPECT_TRUE(absl::IsNotFound(CheckpointReader::Open(storage, kTestFolder).status()));
}

}  // namespace
}  // namespace muster
