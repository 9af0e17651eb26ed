#include "server/shard/partition_checkpoint.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/partition/sparse_placement.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

// Rows gathered at once.
constexpr size_t kRowsAtOnce = 4096;

v1::PartitionFileHeader Header(const PartitionTables& tables, uint64_t clock) {
  const JobTables& job = *tables.job;
  v1::PartitionFileHeader header;
  header.set_job_id(job.job_id());
  header.set_partition(tables.partition);
  header.set_clock(clock);
  for (const std::string& slot : job.dense_optimizer().slot_names()) {
    header.add_optimizer_slots(slot);
  }
  for (uint32_t i = 0; i < tables.dense.size(); ++i) {
    const DenseTable::Block& block = tables.dense.block(i);
    for (const DenseLayout::Piece& piece : block.layout->pieces) {
      const TensorSpec& tensor = job.tables().tensors[piece.tensor];
      v1::DensePiece& dense = *header.add_dense();
      dense.set_tensor(tensor.name);
      for (int64_t extent : tensor.shape) {
        dense.add_start(0);
        dense.add_extent(extent);
      }
      dense.set_begin(piece.begin);
      dense.set_end(piece.end);
      dense.set_steps(block.steps);
    }
  }
  for (size_t i = 0; i < tables.sparse.size(); ++i) {
    v1::SparsePiece& sparse = *header.add_sparse();
    sparse.set_table(job.tables().sparse[i].name);
    sparse.set_rows(tables.sparse[i].rows());
    sparse.set_width(tables.sparse[i].width());
  }
  return header;
}

absl::Status AppendBlock(const DenseTable::Block& block, size_t slot_count,
                         PartitionFileWriter& writer) {
  size_t offset = 0;
  for (const DenseLayout::Piece& piece : block.layout->pieces) {
    const size_t elements = piece.end - piece.begin;
    std::vector<absl::Span<const float>> slots;
    for (size_t slot = 0; slot < slot_count; ++slot) {
      slots.push_back(block.slot_values().subspan(slot * block.weights.size() + offset, elements));
    }
    MUSTER_RETURN_IF_ERROR(
        writer.AppendDense(block.weights.Peek().subspan(offset, elements), slots));
    offset += elements;
  }
  return absl::OkStatus();
}

absl::Status AppendRows(const SparseTable& table, PartitionFileWriter& writer) {
  const std::vector<const SparseTable::Row*> rows = table.Sorted();
  std::vector<uint64_t> keys;
  std::vector<uint32_t> steps, last_use;
  for (const SparseTable::Row* row : rows) {
    keys.push_back(row->key);
    steps.push_back(row->steps);
    last_use.push_back(row->last_use);
  }
  MUSTER_RETURN_IF_ERROR(writer.AppendKeys(keys));
  MUSTER_RETURN_IF_ERROR(writer.AppendSteps(steps));
  MUSTER_RETURN_IF_ERROR(writer.AppendLastUse(last_use));
  std::vector<float> values;
  for (size_t begin = 0; begin < rows.size(); begin += kRowsAtOnce) {
    values.clear();
    for (size_t i = begin; i < std::min(rows.size(), begin + kRowsAtOnce); ++i) {
      values.insert(values.end(), rows[i]->values(), rows[i]->values() + table.width());
    }
    MUSTER_RETURN_IF_ERROR(writer.AppendValues(values));
  }
  return absl::OkStatus();
}

absl::Status RestoreBlock(const CheckpointReader& checkpoint, const JobTables& job, bool with_slots,
                          DenseTable::Block& block) {
  const absl::Span<float> weights = block.weights.Write();
  size_t offset = 0;
  for (const DenseLayout::Piece& piece : block.layout->pieces) {
    const std::string& tensor = job.tables().tensors[piece.tensor].name;
    const size_t elements = piece.end - piece.begin;
    MUSTER_RETURN_IF_ERROR(
        checkpoint.ReadTensor(tensor, "", piece.begin, weights.subspan(offset, elements)));
    if (with_slots) {
      size_t slot_offset = offset;
      for (const std::string& slot : job.dense_optimizer().slot_names()) {
        MUSTER_RETURN_IF_ERROR(checkpoint.ReadTensor(
            tensor, slot, piece.begin, block.slot_values().subspan(slot_offset, elements)));
        slot_offset += weights.size();
      }
      MUSTER_ASSIGN_OR_RETURN(const uint64_t steps,
                              checkpoint.TensorSteps(tensor, piece.begin, piece.end));
      block.steps = std::max(block.steps, steps);
    }
    offset += elements;
  }
  return absl::OkStatus();
}

absl::Status RestoreRows(const CheckpointReader& checkpoint, const PartitionTables& tables,
                         const std::string& name, bool with_slots, MemoryShare& memory,
                         SparseTable& table) {
  for (const v1::SparseTableSchema& schema : checkpoint.manifest().schema().sparse()) {
    if (schema.name() != name || schema.dim() == table.dim()) continue;
    return absl::InvalidArgumentError(absl::StrCat("table ", name, " has dim ", schema.dim(),
                                                   " in the checkpoint, the job's has ",
                                                   table.dim()));
  }
  const uint32_t partitions = tables.job->partitions();
  // The fixed rule of placement puts all rows of a partition in its own file when their number is
  // the same.
  const std::optional<uint32_t> only = checkpoint.manifest().schema().partitions() == partitions
                                           ? std::optional<uint32_t>(tables.partition)
                                           : std::nullopt;
  return checkpoint.ReadSparse(name, only, [&](const StoredRows& rows) -> absl::Status {
    if (rows.width < table.dim() || (with_slots && rows.width != table.width())) {
      return absl::DataLossError(absl::StrCat("rows of table ", name, " have ", rows.width,
                                              " values in the checkpoint, expected ", table.width(),
                                              " (", table.dim(), " of them weights)"));
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      if (SparsePartition(rows.keys[i], partitions) != tables.partition) continue;
      if (!memory.TryGrow(table.bytes_per_row())) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the rows of table ", name, " do not fit the server's memory budget; add ",
                         "servers or raise it"));
      }
      SparseTable::Row& row = table.Load(rows.keys[i]);
      std::copy_n(rows.row(i).data(), with_slots ? table.width() : table.dim(), row.values());
      if (!with_slots) continue;
      row.steps = rows.steps[i];
      row.last_use = rows.last_use[i];
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<PartitionFileInfo> WritePartitionFile(CheckpointStorage& storage,
                                                     const PartitionTables& tables,
                                                     uint64_t clock) {
  const JobTables& job = *tables.job;
  MUSTER_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartitionFileWriter> writer,
      PartitionFileWriter::Create(
          storage, CheckpointFolder(job.request().checkpoint_root(), job.job_id(), clock),
          PartitionFileName(tables.partition, job.generation()), Header(tables, clock)));
  const size_t slots = job.dense_optimizer().slot_names().size();
  for (uint32_t i = 0; i < tables.dense.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(AppendBlock(tables.dense.block(i), slots, *writer));
  }
  for (const SparseTable& table : tables.sparse) {
    MUSTER_RETURN_IF_ERROR(AppendRows(table, *writer));
  }
  return writer->Finish();
}

absl::Status RestorePartition(const CheckpointReader& checkpoint, RestoreExtent extent,
                              MemoryShare& memory, PartitionTables& tables) {
  const JobTables& job = *tables.job;
  const bool with_slots =
      extent == RestoreExtent::kAll && checkpoint.manifest().schema().optimizer().name() ==
                                           job.request().schema().optimizer().name();
  for (uint32_t i = 0; i < tables.dense.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(RestoreBlock(checkpoint, job, with_slots, tables.dense.block(i)));
  }
  for (size_t i = 0; i < tables.sparse.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(RestoreRows(checkpoint, tables, job.tables().sparse[i].name, with_slots,
                                       memory, tables.sparse[i]));
  }
  return absl::OkStatus();
}

}  // namespace muster
