#include "common/model_files/import_checkpoint.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/partition_file.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

constexpr char kJob[] = "import";

// One tensor as one piece, whole.
void AddPiece(const MusterTensor& tensor, v1::PartitionFileHeader& header,
              v1::TablesSchema& schema) {
  v1::TensorSchema& described = *schema.add_tensors();
  described.set_name(tensor.name);
  v1::DensePiece& piece = *header.add_dense();
  piece.set_tensor(tensor.name);
  uint64_t elements = 1;
  for (const int64_t extent : tensor.shape) {
    described.add_shape(extent);
    piece.add_start(0);
    piece.add_extent(extent);
    elements *= extent;
  }
  piece.set_end(elements);
}

}  // namespace

absl::Status WriteImportedCheckpoint(CheckpointStorage& storage, absl::string_view folder,
                                     const Weights& weights,
                                     const std::optional<TokenizerIdentity>& tokenizer) {
  absl::StatusOr<v1::CheckpointManifest> present = ReadManifest(storage, folder);
  if (present.ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat(folder, " holds a checkpoint already; choose another folder"));
  }
  if (!absl::IsNotFound(present.status())) return present.status();
  v1::CheckpointManifest manifest;
  manifest.set_job_id(kJob);
  manifest.mutable_schema()->set_partitions(1);
  if (tokenizer.has_value()) {
    v1::TokenizerRecord& record = *manifest.mutable_schema()->mutable_tokenizer();
    record.set_fingerprint(tokenizer->fingerprint);
    record.set_name(tokenizer->name);
  }
  v1::PartitionFileHeader header;
  header.set_job_id(kJob);
  for (const MusterTensor& tensor : weights.tensors()) {
    AddPiece(tensor, header, *manifest.mutable_schema());
  }
  MUSTER_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartitionFileWriter> writer,
      PartitionFileWriter::Create(storage, folder, NewPartitionFileName(0, 0), header));
  std::vector<float> values;
  for (const MusterTensor& tensor : weights.tensors()) {
    MUSTER_RETURN_IF_ERROR(weights.Read(tensor.name, values));
    MUSTER_RETURN_IF_ERROR(writer->AppendDense(values, {}));
  }
  MUSTER_ASSIGN_OR_RETURN(const PartitionFileInfo info, writer->Finish());
  v1::CheckpointFile& file = *manifest.add_files();
  file.set_path(info.path);
  file.set_bytes(info.bytes);
  file.set_checksum(info.checksum);
  return WriteManifest(storage, folder, manifest);
}

}  // namespace muster
