#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/checkpoint/partition_file.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "google/protobuf/stubs/logging.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

constexpr char kFolder[] = "/checkpoints/job-1/7";

absl::string_view AsBytes(const uint64_t& number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

// The input is a file as it is, or a header behind its length (u16), then the arrays.
std::string FileOf(FuzzInput& input) {
  switch (input.Choice(3)) {
    case 0: {
      const absl::string_view header = input.Bytes(input.Number<uint16_t>());
      return absl::StrCat(AsBytes(kPartitionFileMagic), input.rest(), header,
                          AsBytes(Fingerprint(header)), AsBytes(header.size()));
    }
    case 1: {
      const absl::string_view header = input.Bytes(input.Number<uint16_t>());
      return absl::StrCat(AsBytes(header.size()), header, input.rest());
    }
    default:
      return std::string(input.rest());
  }
}

// Reads all that the file says it has.
void ReadAll(const PartitionFileReader& file, size_t file_bytes) {
  const v1::PartitionFileHeader& header = file.header();
  for (int i = 0; i < header.dense_size(); ++i) {
    const v1::DensePiece& piece = header.dense(i);
    const uint64_t elements = piece.end() - piece.begin();
    FUZZ_CHECK(elements <= file_bytes / sizeof(float));
    const int arrays = piece.no_slots() ? 1 : 1 + header.optimizer_slots_size();
    std::vector<float> values(elements);
    for (int array = 0; array < arrays; ++array) {
      FUZZ_CHECK(file.ReadDense(i, array, 0, absl::MakeSpan(values)).ok());
    }
  }
  for (int i = 0; i < header.sparse_size(); ++i) {
    const v1::SparsePiece& piece = header.sparse(i);
    uint64_t rows = 0;
    uint64_t keys = 0;
    uint64_t dropped = 0;
    FUZZ_CHECK(file.ReadSparse(i,
                               [&](const StoredRows& part) {
                                 FUZZ_CHECK(part.values.size() == part.size() * piece.width());
                                 rows += part.size();
                                 return absl::OkStatus();
                               })
                   .ok());
    FUZZ_CHECK(file.ReadKeys(i,
                             [&](absl::Span<const uint64_t> part) {
                               keys += part.size();
                               return absl::OkStatus();
                             })
                   .ok());
    FUZZ_CHECK(file.ReadDropped(i,
                                [&](absl::Span<const uint64_t> part) {
                                  dropped += part.size();
                                  return absl::OkStatus();
                                })
                   .ok());
    FUZZ_CHECK(rows == piece.rows() && keys == rows && dropped == piece.dropped());
  }
}

// Makes the file the only one of a checkpoint with the tensor "a" (4 x 6) and the table "e".
void WriteManifestOf(CheckpointStorage& storage, const PartitionFileReader& file,
                     absl::string_view bytes) {
  v1::CheckpointManifest manifest;
  manifest.set_format_version(kCheckpointFormatVersion);
  manifest.set_job_id(file.header().job_id());
  manifest.set_clock(file.header().clock());
  manifest.mutable_schema()->set_partitions(1);
  v1::TensorSchema& tensor = *manifest.mutable_schema()->add_tensors();
  tensor.set_name("a");
  tensor.add_shape(4);
  tensor.add_shape(6);
  manifest.mutable_schema()->add_sparse()->set_name("e");
  v1::CheckpointFile& entry = *manifest.add_files();
  entry.set_path("file");
  entry.set_bytes(bytes.size());
  entry.set_checksum(Fingerprint(bytes));
  FUZZ_CHECK(WriteManifest(storage, kFolder, manifest).ok());
}

void ReadCheckpoint(const CheckpointStorage& storage) {
  const auto reader = CheckpointReader::Open(storage, kFolder);
  if (!reader.ok()) return;
  std::vector<float> values(24);
  (*reader)->ReadTensor("a", "", 0, absl::MakeSpan(values)).IgnoreError();
  (*reader)->ReadTensor("a", "m", 3, absl::MakeSpan(values).first(9)).IgnoreError();
  (*reader)->TensorSteps("a", {}, 0, 24).IgnoreError();
  (*reader)->ReadLossScale(1).IgnoreError();
  uint64_t rows = 0;
  const absl::Status read = (*reader)->ReadSparse("e", 0, [&](const StoredRows& part) {
    rows += part.size();
    return absl::OkStatus();
  });
  const auto count = (*reader)->SparseRowCount("e");
  FUZZ_CHECK(read.ok() == count.ok() && (!read.ok() || rows == *count));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const google::protobuf::LogSilencer silencer;
  FuzzInput input(data, size);
  const std::string bytes = FileOf(input);
  const std::string uri = JoinUri(kFolder, "file");
  MemoryStorage storage;
  FUZZ_CHECK(ReplaceFile(storage, uri, bytes).ok());
  const auto file = PartitionFileReader::Open(storage, uri);
  if (!file.ok()) {
    FUZZ_CHECK(file.status().code() == absl::StatusCode::kDataLoss ||
               file.status().code() == absl::StatusCode::kFailedPrecondition);
    // Names of tensors are quoted.
    FUZZ_CHECK(file.status().message().size() < 1000 + size);
    return 0;
  }
  ReadAll(**file, bytes.size());
  if ((*file)->header().partition() != 0) return 0;
  WriteManifestOf(storage, **file, bytes);
  ReadCheckpoint(storage);
  return 0;
}

}  // namespace muster
