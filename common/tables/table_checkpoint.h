#ifndef MUSTER_COMMON_TABLES_TABLE_CHECKPOINT_H_
#define MUSTER_COMMON_TABLES_TABLE_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
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

// Moves tables between memory and checkpoints. Servers use it for their partitions, all-reduce
// workers for their replica: either reads what the other wrote.

// The content of one file of a checkpoint. Blocks and rows must live until it is written.
struct PartitionContent {
  struct Block {
    const DenseLayout::Block* layout = nullptr;
    absl::Span<const float> weights;
    // State arrays one after another, each as long as the weights, the first two perhaps packed;
    // none if the block is frozen.
    absl::Span<const float> state;
    // Optimizer steps that the block has seen.
    uint64_t steps = 0;
  };
  struct Rows {
    std::string table;
    // Floats of a row: its weights and state.
    uint32_t width = 0;
    // In ascending order of key, so that equal tables give equal files.
    std::vector<const SparseTable::Row*> rows;
    // A delta, too, has all rows, not only those that changed.
    bool whole = false;
  };
  // The part of a slot's half-precision pushes that rounding has taken away so far.
  struct Residual {
    uint32_t slot = 0;
    // One for each of PartitionContent::blocks.
    std::vector<absl::Span<const float>> blocks;
  };

  std::string job_id;
  uint64_t generation = 0;
  uint64_t clock = 0;
  // Set for a delta: `sparse` has only what changed since the cut at this clock.
  absl::optional<uint64_t> base;
  // The file's number in the manifest.
  uint32_t partition = 0;
  // The state names of the dense optimizer, and whether it packs pairs (Optimizer).
  std::vector<std::string> state_names;
  bool packs_pairs = false;
  // The tensors that the blocks' pieces are of.
  absl::Span<const TensorSpec> tensors;
  std::vector<Block> blocks;
  std::vector<Residual> residuals;
  // By slot, in order; one file of a checkpoint has them all. Empty where slots do not adapt a
  // scale.
  std::vector<SlotLossScale> loss_scales;
  // One per sparse table of the job.
  std::vector<Rows> sparse;
  // Called after each of `blocks`, with its index, when its values are in the file.
  std::function<void(size_t block)> written = [](size_t) {};
};

// Makes the header of the content's file, without numbers of rows, and appends all of its dense
// pieces, for callers that append rows of their own.
v1::PartitionFileHeader PartitionHeader(const PartitionContent& content);
absl::Status AppendDensePieces(const PartitionContent& content, PartitionFileWriter& writer);

// Writes the file into the job's folder of `clock` under `checkpoint_root`. Blocks on the storage
// and returns the storage's errors.
absl::StatusOr<PartitionFileInfo> WritePartition(CheckpointStorage& storage,
                                                 absl::string_view checkpoint_root,
                                                 const PartitionContent& content);

// Returns the name under which a checkpoint holds a table's keys without a row.
std::string CandidatesTable(absl::string_view table);

// Checks that a job may restore the checkpoint's weights. InvalidArgument: both name a tokenizer,
// and these differ (CheckSameTokenizer).
absl::Status CheckTokenizer(const CheckpointReader& checkpoint, const v1::TablesSchema& job);

// The part of a checkpoint that is restored.
enum class RestoreExtent {
  // Weights; also state and steps where the optimizer is the same. A resume.
  kAll,
  // Weights alone: a new job starts from another's.
  kWeights,
  // The averages that the other job kept of its weights, in the place of these; of rows, which have
  // none, the weights.
  kAverages,
};

// Returns whether a job with the optimizer of this name restores state and steps, too.
bool RestoresState(const CheckpointReader& checkpoint, RestoreExtent extent,
                   absl::string_view optimizer);

// The state arrays that are restored.
struct StateArrays {
  absl::Span<const std::string> names;
  bool packs_pairs = false;  // Optimizer::packs_pairs
};

// Fills a block's weights as `extent` says, and `state` with the state arrays that are named, one
// after another; a frozen block has none, and averages that the checkpoint lacks begin at the
// weights. Adapters keep the values that are there where a job begins with the weights of one that
// has no adapters. Returns the optimizer steps that the checkpoint's values have seen. NotFound:
// the checkpoint lacks a tensor. InvalidArgument: a tensor has another shape there, or there are no
// averages to restore. DataLoss: damaged.
absl::StatusOr<uint64_t> RestoreBlock(const CheckpointReader& checkpoint, RestoreExtent extent,
                                      absl::Span<const TensorSpec> tensors,
                                      const DenseLayout::Block& block, const StateArrays& arrays,
                                      absl::Span<float> weights, absl::Span<float> state);

struct RestoreRowsOptions {
  bool with_state = true;
  // Only the file of this partition is read.
  std::optional<uint32_t> partition;
};

// Loads the rows into a table for whose key `wanted` returns true; its error ends the restore.
// NotFound: the checkpoint has no such table. InvalidArgument: its rows have another length.
// DataLoss: damaged.
absl::Status RestoreRows(const CheckpointReader& checkpoint, absl::string_view name,
                         const RestoreRowsOptions& options,
                         absl::FunctionRef<absl::StatusOr<bool>(uint64_t key)> wanted,
                         SparseTable& table);

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_TABLE_CHECKPOINT_H_
