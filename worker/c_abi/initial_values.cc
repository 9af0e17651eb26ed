#include "worker/c_abi/initial_values.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/partition_file.h"
#include "common/partition/schema.h"
#include "proto/checkpoint.pb.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(20);
constexpr absl::Duration kPatience = absl::Minutes(10);

uint64_t ElementsOf(const v1::TensorSchema& tensor) {
  uint64_t elements = 1;
  for (const int64_t extent : tensor.shape()) elements *= static_cast<uint64_t>(extent);
  return elements;
}

// Returns the header of a file that has all tensors whole, without optimizer state, and no rows.
v1::PartitionFileHeader HeaderOf(const v1::TablesSchema& schema, const std::string& job_id) {
  v1::PartitionFileHeader header;
  header.set_job_id(job_id);
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    v1::DensePiece& piece = *header.add_dense();
    piece.set_tensor(tensor.name());
    for (const int64_t extent : tensor.shape()) {
      piece.add_start(0);
      piece.add_extent(extent);
    }
    piece.set_end(ElementsOf(tensor));
  }
  for (const v1::SparseTableSchema& table : schema.sparse()) {
    v1::SparsePiece& piece = *header.add_sparse();
    piece.set_table(table.name());
    piece.set_width(table.dim());
  }
  return header;
}

}  // namespace

std::string InitialValuesFolder(const v1::TaskOrder& order) {
  return CheckpointFolder(order.checkpoint_root(), order.job_id(), 0);
}

absl::Status WriteInitialValues(CheckpointStorage& storage, const v1::TaskOrder& order,
                                const v1::TablesSchema& schema,
                                absl::Span<const float* const> values) {
  const std::string folder = InitialValuesFolder(order);
  v1::CheckpointManifest manifest;
  manifest.set_job_id(order.job_id());
  manifest.set_generation(order.generation());
  *manifest.mutable_schema() = schema;
  manifest.mutable_schema()->set_partitions(1);
  const absl::StatusOr<v1::CheckpointManifest> there = ReadManifest(storage, folder);
  if (there.ok() && SchemaFingerprint(there->schema()) == SchemaFingerprint(manifest.schema())) {
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(DeleteManifest(storage, folder));
  MUSTER_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartitionFileWriter> writer,
      PartitionFileWriter::Create(storage, folder, NewPartitionFileName(0, order.generation()),
                                  HeaderOf(schema, order.job_id())));
  for (int i = 0; i < schema.tensors_size(); ++i) {
    MUSTER_RETURN_IF_ERROR(
        writer->AppendDense({values[i], ElementsOf(schema.tensors(i))}, /*state=*/{}));
  }
  MUSTER_ASSIGN_OR_RETURN(const PartitionFileInfo written, writer->Finish());
  v1::CheckpointFile& file = *manifest.add_files();
  file.set_path(written.path);
  file.set_bytes(written.bytes);
  file.set_checksum(written.checksum);
  return WriteManifest(storage, folder, manifest);
}

absl::Status AwaitInitialValues(const CheckpointStorage& storage, const v1::TaskOrder& order,
                                Waiter& waiter) {
  const std::string folder = InitialValuesFolder(order);
  for (absl::Duration waited; waited < kPatience; waited += kLook) {
    const absl::Status found = ReadManifest(storage, folder).status();
    if (!absl::IsNotFound(found)) return found;
    if (!waiter.Wait(kLook)) return absl::CancelledError("the wait for initial values was ended");
  }
  return absl::UnavailableError(absl::StrCat(
      "rank 0 has written no initial values to ", folder, " for ", absl::FormatDuration(kPatience),
      "; every rank has to make its ParameterServer, and all see the checkpoints' folder"));
}

}  // namespace muster
