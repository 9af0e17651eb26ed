#ifndef MUSTER_COMMON_TABLES_TABLE_CHECKPOINT_H_
#define MUSTER_COMMON_TABLES_TABLE_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/loss_scale.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/partition_file.h"
#include "common/checkpoint/storage.h"
#include "common/partition/dense_layout.h"
#include "common/partition/tensor_spec.h"
#include "common/tables/sparse_table.h"

namespace muster {

namespace v1 {
class PartitionFileHeader;
class TablesSchema;
}  // namespace v1

// Between tables in memory and the common form of checkpoints, whoever holds the tables: a server
// its partitions, a worker that trains by all-reduce a replica of all. What one writes the other
// reads.

// One file of a checkpoint: blocks and rows that its writer lends until it is written.
struct PartitionContent {
  struct Block {
    const DenseLayout::Block* layout = nullptr;
    absl::Span<const float> weights;
    // The optimizer's slots one after another, each as long as the weights.
    absl::Span<const float> slots;
    // Optimizer steps it has seen.
    uint64_t steps = 0;
  };
  struct Rows {
    std::string table;
    // Floats of a row: its weights and slots.
    uint32_t width = 0;
    // In ascending order of key, so that equal tables give equal files.
    std::vector<const SparseTable::Row*> rows;
    // All of them are written, also in a delta.
    bool whole = false;
  };
  // What a slot's half-precision pushes have yet to carry over.
  struct Residual {
    uint32_t slot = 0;
    // Of `blocks`, one for each.
    std::vector<absl::Span<const float>> blocks;
  };

  std::string job_id;
  uint64_t generation = 0;
  uint64_t clock = 0;
  // A delta: only what changed since the cut at this clock is in `sparse`.
  absl::optional<uint64_t> base;
  // The file's number in the manifest.
  uint32_t partition = 0;
  // Of the dense optimizer.
  std::vector<std::string> slot_names;
  // That the pieces of blocks count in.
  absl::Span<const TensorSpec> tensors;
  std::vector<Block> blocks;
  std::vector<Residual> residuals;
  // Of slots that find one, in order; all in one of a checkpoint's files.
  std::vector<SlotLossScale> loss_scales;
  // One per sparse table of the job.
  std::vector<Rows> sparse;
};

// The header of the content's file, without numbers of rows; and all of its dense pieces. For those
// who append rows of their own.
v1::PartitionFileHeader PartitionHeader(const PartitionContent& content);
absl::Status AppendDensePieces(const PartitionContent& content, PartitionFileWriter& writer);

// Writes the file into the job's folder of `clock` under `checkpoint_root`. Blocks on the storage;
// errors are the storage's.
absl::StatusOr<PartitionFileInfo> WritePartition(CheckpointStorage& storage,
                                                 absl::string_view checkpoint_root,
                                                 const PartitionContent& content);

// The table of a checkpoint that holds a table's keys without a row.
std::string CandidatesTable(absl::string_view table);

// InvalidArgument: the checkpoint says which tokenizer its weights learned from, and the job that
// is to restore them says another (CheckSameTokenizer).
absl::Status CheckTokenizer(const CheckpointReader& checkpoint, const v1::TablesSchema& job);

// What of a checkpoint is restored.
enum class RestoreExtent {
  // Weights, and the optimizer's slots and steps where it is the same optimizer: a resume.
  kAll,
  // A new job from another's weights.
  kWeights,
};

// Whether slots and steps are restored, for a job with the optimizer of this name.
bool RestoresSlots(const CheckpointReader& checkpoint, RestoreExtent extent,
                   absl::string_view optimizer);

// Fills a block's weights and those of its slots that `slot_names` names, one after another.
// Returns the optimizer steps that the checkpoint's values have seen. NotFound: the checkpoint
// lacks a tensor. InvalidArgument: there it has another shape. DataLoss: damaged.
absl::StatusOr<uint64_t> RestoreBlock(const CheckpointReader& checkpoint,
                                      absl::Span<const TensorSpec> tensors,
                                      const DenseLayout::Block& block,
                                      absl::Span<const std::string> slot_names,
                                      absl::Span<float> weights, absl::Span<float> slots);

struct RestoreRowsOptions {
  bool with_slots = true;
  // Only the file of this partition is read.
  std::optional<uint32_t> partition;
};

// Loads rows into a table: those for whose key `wanted` says true; its error ends the restore.
// NotFound: the checkpoint has no such table. InvalidArgument: its rows have another length.
// DataLoss: damaged.
absl::Status RestoreRows(const CheckpointReader& checkpoint, absl::string_view name,
                         const RestoreRowsOptions& options,
                         absl::FunctionRef<absl::StatusOr<bool>(uint64_t key)> wanted,
                         SparseTable& table);

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_TABLE_CHECKPOINT_H_
