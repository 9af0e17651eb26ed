#include "common/tables/table_checkpoint.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/optim/optimizer.h"
#include "common/optim/packed_pairs.h"
#include "common/partition/local_tensors.h"
#include "common/tokenizer/tokenizer_identity.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

// Rows gathered at once.
constexpr size_t kRowsAtOnce = 4096;

// Adds a dense piece of the header for each rectangle that has some of the piece's elements.
// `finish` completes each.
void AddPieces(const TensorSpec& tensor, const DenseLayout::Piece& piece, const std::string& name,
               v1::PartitionFileHeader& header,
               absl::FunctionRef<void(v1::DensePiece& dense)> finish) {
  ForEachRectangle(tensor, piece.begin, piece.end,
                   [&](const Rectangle& rectangle, uint64_t begin, uint64_t end) {
                     v1::DensePiece& dense = *header.add_dense();
                     dense.set_tensor(name);
                     dense.mutable_start()->Add(rectangle.start.begin(), rectangle.start.end());
                     dense.mutable_extent()->Add(rectangle.extent.begin(), rectangle.extent.end());
                     dense.set_begin(begin);
                     dense.set_end(end);
                     finish(dense);
                   });
}

// Calls `append(offset, elements)` for each dense piece that AddPieces has made of the block's
// pieces: its position in the block, and its size. Returns the first error.
absl::Status ForEachDensePiece(
    absl::Span<const TensorSpec> tensors, const DenseLayout::Block& block,
    absl::FunctionRef<absl::Status(size_t offset, size_t elements)> append) {
  absl::Status status;
  size_t offset = 0;
  for (const DenseLayout::Piece& piece : block.pieces) {
    ForEachRectangle(tensors[piece.tensor], piece.begin, piece.end,
                     [&](const Rectangle&, uint64_t begin, uint64_t end) {
                       if (status.ok()) status = append(offset, end - begin);
                       offset += end - begin;
                     });
  }
  return status;
}

// Returns the position of state array `i` among arrays of floats. Of packed arrays the first two
// have the first.
size_t ArrayOfFloats(size_t i, bool packs_pairs) { return i > 0 && packs_pairs ? i - 1 : i; }

bool IsPacked(size_t i, bool packs_pairs) { return packs_pairs && i < 2; }

absl::Status AppendBlock(const PartitionContent& content, const PartitionContent::Block& block,
                         PartitionFileWriter& writer) {
  return ForEachDensePiece(content.tensors, *block.layout, [&](size_t offset, size_t elements) {
    std::vector<absl::Span<const float>> state;
    std::array<std::vector<float>, 2> unpacked;
    for (size_t i = 0; i < content.state_names.size() && !block.layout->frozen; ++i) {
      const size_t array = ArrayOfFloats(i, content.packs_pairs);
      state.push_back(block.state.subspan(array * block.weights.size() + offset, elements));
      if (!IsPacked(i, content.packs_pairs)) continue;
      unpacked[i].resize(elements);
      PairHalf(static_cast<int>(i), state.back(), absl::MakeSpan(unpacked[i]));
      state.back() = unpacked[i];
    }
    return writer.AppendDense(block.weights.subspan(offset, elements), state);
  });
}

absl::Status AppendResidual(const PartitionContent& content,
                            const PartitionContent::Residual& residual,
                            PartitionFileWriter& writer) {
  for (size_t i = 0; i < content.blocks.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(ForEachDensePiece(
        content.tensors, *content.blocks[i].layout, [&](size_t offset, size_t elements) {
          return writer.AppendDense(residual.blocks[i].subspan(offset, elements), {});
        }));
  }
  return absl::OkStatus();
}

absl::Status AppendTable(int piece, const PartitionContent::Rows& table,
                         PartitionFileWriter& writer) {
  std::vector<uint64_t> keys;
  std::vector<uint32_t> steps, last_use;
  std::vector<float> values;
  for (size_t begin = 0; begin < table.rows.size(); begin += kRowsAtOnce) {
    keys.clear();
    steps.clear();
    last_use.clear();
    values.clear();
    for (size_t i = begin; i < std::min(table.rows.size(), begin + kRowsAtOnce); ++i) {
      const SparseTable::Row& row = *table.rows[i];
      keys.push_back(row.key);
      steps.push_back(row.steps);
      last_use.push_back(row.last_use);
      values.insert(values.end(), row.values(), row.values() + table.width);
    }
    MUSTER_RETURN_IF_ERROR(writer.AppendRows(piece, {.keys = keys,
                                                     .steps = steps,
                                                     .last_use = last_use,
                                                     .values = values,
                                                     .width = table.width}));
  }
  return absl::OkStatus();
}

// Elements of a tensor of another shape would be read as if they were of this one.
absl::Status CheckShape(const CheckpointReader& checkpoint, const TensorSpec& tensor) {
  for (const v1::TensorSchema& schema : checkpoint.manifest().schema().tensors()) {
    if (absl::string_view(schema.name()) != absl::string_view(tensor.name)) continue;
    const std::vector<int64_t>& shape = GlobalShape(tensor);
    if (std::equal(schema.shape().begin(), schema.shape().end(), shape.begin(), shape.end())) {
      break;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", tensor.name, " has shape [", absl::StrJoin(schema.shape(), ", "),
                     "] in the checkpoint, the job's has [", absl::StrJoin(shape, ", "),
                     "]: it is of another model"));
  }
  return absl::OkStatus();
}

bool HasAdapters(const CheckpointReader& checkpoint) {
  const auto& tensors = checkpoint.manifest().schema().tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const v1::TensorSchema& tensor) { return IsAdapter(tensor.name()); });
}

}  // namespace

v1::PartitionFileHeader PartitionHeader(const PartitionContent& content) {
  v1::PartitionFileHeader header;
  header.set_job_id(content.job_id);
  header.set_partition(content.partition);
  header.set_clock(content.clock);
  if (content.base.has_value()) header.set_base_clock(*content.base);
  for (const std::string& name : content.state_names) header.add_optimizer_slots(name);
  for (const PartitionContent::Block& block : content.blocks) {
    for (const DenseLayout::Piece& piece : block.layout->pieces) {
      const TensorSpec& tensor = content.tensors[piece.tensor];
      AddPieces(tensor, piece, tensor.name, header, [&](v1::DensePiece& dense) {
        dense.set_steps(block.steps);
        dense.set_no_slots(block.layout->frozen);
      });
    }
  }
  for (const PartitionContent::Residual& residual : content.residuals) {
    for (const PartitionContent::Block& block : content.blocks) {
      for (const DenseLayout::Piece& piece : block.layout->pieces) {
        const TensorSpec& tensor = content.tensors[piece.tensor];
        AddPieces(tensor, piece, absl::StrCat("residual/", residual.slot, "/", tensor.name), header,
                  [](v1::DensePiece& dense) { dense.set_no_slots(true); });
      }
    }
  }
  for (const PartitionContent::Rows& rows : content.sparse) {
    v1::SparsePiece& sparse = *header.add_sparse();
    sparse.set_table(rows.table);
    sparse.set_width(rows.width);
    sparse.set_whole(rows.whole);
  }
  for (const SlotLossScale& slot : content.loss_scales) {
    v1::StoredLossScale& stored = *header.add_loss_scales();
    stored.set_slot(slot.slot);
    stored.set_scale(slot.value.scale);
    stored.set_steps(slot.value.steps);
  }
  return header;
}

absl::Status AppendDensePieces(const PartitionContent& content, PartitionFileWriter& writer) {
  for (size_t i = 0; i < content.blocks.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(AppendBlock(content, content.blocks[i], writer));
    content.written(i);
  }
  for (const PartitionContent::Residual& residual : content.residuals) {
    MUSTER_RETURN_IF_ERROR(AppendResidual(content, residual, writer));
  }
  return absl::OkStatus();
}

absl::StatusOr<PartitionFileInfo> WritePartition(CheckpointStorage& storage,
                                                 absl::string_view checkpoint_root,
                                                 const PartitionContent& content) {
  MUSTER_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartitionFileWriter> writer,
      PartitionFileWriter::Create(
          storage, CheckpointFolder(checkpoint_root, content.job_id, content.clock),
          NewPartitionFileName(content.partition, content.generation), PartitionHeader(content)));
  MUSTER_RETURN_IF_ERROR(AppendDensePieces(content, *writer));
  for (size_t i = 0; i < content.sparse.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(AppendTable(static_cast<int>(i), content.sparse[i], *writer));
  }
  return writer->Finish();
}

std::string CandidatesTable(absl::string_view table) { return absl::StrCat(table, " candidates"); }

absl::Status CheckTokenizer(const CheckpointReader& checkpoint, const v1::TablesSchema& job) {
  const v1::CheckpointManifest& manifest = checkpoint.manifest();
  if (!manifest.schema().has_tokenizer() || !job.has_tokenizer()) return absl::OkStatus();
  const v1::TokenizerRecord& learned = manifest.schema().tokenizer();
  return CheckSameTokenizer(
      absl::StrCat("the weights of ", manifest.job_id(), " at clock ", manifest.clock()),
      {learned.fingerprint(), learned.name()},
      {job.tokenizer().fingerprint(), job.tokenizer().name()});
}

bool RestoresState(const CheckpointReader& checkpoint, RestoreExtent extent,
                   absl::string_view optimizer) {
  return extent == RestoreExtent::kAll &&
         absl::string_view(checkpoint.manifest().schema().optimizer().name()) == optimizer;
}

absl::StatusOr<uint64_t> RestoreBlock(const CheckpointReader& checkpoint, RestoreExtent extent,
                                      absl::Span<const TensorSpec> tensors,
                                      const DenseLayout::Block& block, const StateArrays& arrays,
                                      absl::Span<float> weights, absl::Span<float> state) {
  uint64_t steps = 0;
  size_t offset = 0;
  std::vector<float> unpacked;
  const bool averages = extent == RestoreExtent::kAverages;
  if (averages) MUSTER_RETURN_IF_ERROR(checkpoint.CheckAverages());
  const absl::Span<const std::string> names =
      block.frozen ? absl::Span<const std::string>() : arrays.names;
  for (const DenseLayout::Piece& piece : block.pieces) {
    const TensorSpec& tensor = tensors[piece.tensor];
    if (extent != RestoreExtent::kAll && IsAdapter(tensor.name) && !HasAdapters(checkpoint)) {
      offset += piece.end - piece.begin;
      continue;
    }
    MUSTER_RETURN_IF_ERROR(CheckShape(checkpoint, tensor));
    absl::Status status;
    const auto restore = [&](const Rectangle& rectangle, uint64_t begin,
                             uint64_t end) -> absl::Status {
      const size_t elements = end - begin;
      const absl::Span<float> restored = weights.subspan(offset, elements);
      MUSTER_RETURN_IF_ERROR(checkpoint.ReadRectangle(tensor.name, averages ? kAverageState : "",
                                                      rectangle, begin, restored));
      for (size_t i = 0; i < names.size(); ++i) {
        const size_t number = ArrayOfFloats(i, arrays.packs_pairs);
        const absl::Span<float> array = state.subspan(number * weights.size() + offset, elements);
        const bool packed = IsPacked(i, arrays.packs_pairs);
        if (packed) unpacked.resize(elements);
        const absl::Span<float> values = packed ? absl::MakeSpan(unpacked) : array;
        if (names[i] == kAverageState && !checkpoint.has_averages()) {
          std::copy(restored.begin(), restored.end(), values.begin());
          continue;
        }
        MUSTER_RETURN_IF_ERROR(
            checkpoint.ReadRectangle(tensor.name, names[i], rectangle, begin, values));
        if (packed) SetPairHalf(static_cast<int>(i), values, array);
      }
      MUSTER_ASSIGN_OR_RETURN(const uint64_t seen,
                              checkpoint.TensorSteps(tensor.name, rectangle, begin, end));
      steps = std::max(steps, seen);
      offset += elements;
      return absl::OkStatus();
    };
    ForEachRectangle(tensor, piece.begin, piece.end,
                     [&](const Rectangle& rectangle, uint64_t begin, uint64_t end) {
                       if (status.ok()) status = restore(rectangle, begin, end);
                     });
    MUSTER_RETURN_IF_ERROR(status);
  }
  return steps;
}

absl::Status RestoreRows(const CheckpointReader& checkpoint, absl::string_view name,
                         const RestoreRowsOptions& options,
                         absl::FunctionRef<absl::StatusOr<bool>(uint64_t key)> wanted,
                         SparseTable& table) {
  for (const v1::SparseTableSchema& schema : checkpoint.manifest().schema().sparse()) {
    if (absl::string_view(schema.name()) != name || schema.dim() == table.dim()) continue;
    return absl::InvalidArgumentError(absl::StrCat("table ", name, " has dim ", schema.dim(),
                                                   " in the checkpoint, the job's has ",
                                                   table.dim()));
  }
  return checkpoint.ReadSparse(
      name, options.partition, [&](const StoredRows& rows) -> absl::Status {
        if (rows.width < table.dim() || (options.with_state && rows.width != table.width())) {
          return absl::DataLossError(absl::StrCat(
              "rows of table ", name, " have ", rows.width, " values in the checkpoint, expected ",
              table.width(), " (", table.dim(), " of them weights)"));
        }
        for (size_t i = 0; i < rows.size(); ++i) {
          MUSTER_ASSIGN_OR_RETURN(const bool load, wanted(rows.keys[i]));
          if (!load) continue;
          SparseTable::Row& row = table.Load(rows.keys[i]);
          std::copy_n(rows.row(i).data(), options.with_state ? table.width() : table.dim(),
                      row.values());
          if (!options.with_state) continue;
          row.steps = rows.steps[i];
          row.last_use = rows.last_use[i];
        }
        return absl::OkStatus();
      });
}

}  // namespace muster
