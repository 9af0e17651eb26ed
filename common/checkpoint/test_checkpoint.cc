#include "common/checkpoint/test_checkpoint.h"

#include <memory>
#include <vector>

#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/partition_file.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

struct Tensor {
  const char* name;
  std::vector<int64_t> shape;
  uint64_t elements;
};

const std::vector<Tensor>& Tensors() {
  static const auto* const tensors =
      new std::vector<Tensor>{{"a", {4, 6}, 24}, {"b", {5}, 5}, {"s", {}, 1}};
  return *tensors;
}

// Elements of a tensor that come to a partition.
std::pair<uint64_t, uint64_t> Share(uint64_t elements, uint32_t partition, uint32_t partitions) {
  return {elements * partition / partitions, elements * (partition + 1) / partitions};
}

absl::StatusOr<PartitionFileInfo> WritePartition(CheckpointStorage& storage,
                                                 absl::string_view folder, uint32_t partition,
                                                 uint32_t partitions) {
  v1::PartitionFileHeader header;
  header.set_job_id("job-1");
  header.set_partition(partition);
  header.set_clock(7);
  header.add_optimizer_slots("m");
  header.add_optimizer_slots("v");
  for (const Tensor& tensor : Tensors()) {
    const auto [begin, end] = Share(tensor.elements, partition, partitions);
    if (begin == end) continue;
    v1::DensePiece& piece = *header.add_dense();
    piece.set_tensor(tensor.name);
    for (const int64_t extent : tensor.shape) {
      piece.add_start(0);
      piece.add_extent(extent);
    }
    piece.set_begin(begin);
    piece.set_end(end);
    piece.set_steps(10 + partition);
  }
  const auto [first, last] = Share(kTestRows, partition, partitions);
  v1::SparsePiece& e = *header.add_sparse();
  e.set_table("e");
  e.set_width(kTestRowWidth);
  v1::SparsePiece& f = *header.add_sparse();
  f.set_table("f");
  f.set_width(3);
  for (uint32_t slot = 0; partition + 1 == partitions && slot < 2; ++slot) {
    v1::StoredLossScale& stored = *header.add_loss_scales();
    stored.set_slot(slot);
    stored.set_scale(TestLossScale(slot).scale);
    stored.set_steps(TestLossScale(slot).steps);
  }

  MUSTER_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartitionFileWriter> file,
      PartitionFileWriter::Create(storage, folder, PartitionFileName(partition, 2), header));
  for (const v1::DensePiece& piece : header.dense()) {
    std::vector<std::vector<float>> arrays(3);
    for (int array = 0; array < 3; ++array) {
      for (uint64_t i = piece.begin(); i < piece.end(); ++i) {
        arrays[array].push_back(TestElement(piece.tensor(), array, i));
      }
    }
    MUSTER_RETURN_IF_ERROR(file->AppendDense(arrays[0], {arrays[1], arrays[2]}));
  }
  std::vector<uint64_t> keys;
  std::vector<uint32_t> steps;
  std::vector<uint32_t> last_use;
  std::vector<float> values;
  for (uint64_t k = first; k < last; ++k) {
    keys.push_back(1000 * k);
    steps.push_back(100 + k);
    last_use.push_back(200 + k);
    for (uint32_t i = 0; i < kTestRowWidth; ++i) values.push_back(TestRowValue(1000 * k, i));
  }
  MUSTER_RETURN_IF_ERROR(file->AppendRows(0, {.keys = keys,
                                              .steps = steps,
                                              .last_use = last_use,
                                              .values = values,
                                              .width = kTestRowWidth}));
  return file->Finish();
}

}  // namespace

LossScale TestLossScale(uint32_t slot) {
  return {.scale = slot == 0 ? 64.0f : 128.0f, .steps = 7 + slot};
}

float TestElement(absl::string_view tensor, int array, uint64_t i) {
  return static_cast<float>(tensor[0] * 1000 + array * 100 + i);
}

float TestRowValue(uint64_t key, int i) { return static_cast<float>(key) + 0.125f * i; }

absl::Status WriteTestCheckpoint(CheckpointStorage& storage, absl::string_view folder,
                                 uint32_t partitions) {
  v1::CheckpointManifest manifest;
  manifest.set_job_id("job-1");
  manifest.set_generation(2);
  manifest.set_clock(7);
  manifest.mutable_schema()->set_partitions(partitions);
  for (const Tensor& tensor : Tensors()) {
    v1::TensorSchema& schema = *manifest.mutable_schema()->add_tensors();
    schema.set_name(tensor.name);
    for (const int64_t extent : tensor.shape) schema.add_shape(extent);
  }
  v1::SparseTableSchema& e = *manifest.mutable_schema()->add_sparse();
  e.set_name("e");
  e.set_dim(3);
  v1::SparseTableSchema& f = *manifest.mutable_schema()->add_sparse();
  f.set_name("f");
  f.set_dim(1);
  for (uint32_t partition = 0; partition < partitions; ++partition) {
    MUSTER_ASSIGN_OR_RETURN(const PartitionFileInfo info,
                            WritePartition(storage, folder, partition, partitions));
    v1::CheckpointFile& file = *manifest.add_files();
    file.set_partition(partition);
    file.set_path(info.path);
    file.set_bytes(info.bytes);
    file.set_checksum(info.checksum);
  }
  return WriteManifest(storage, folder, manifest);
}

}  // namespace muster
