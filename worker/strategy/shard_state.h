#ifndef MUSTER_WORKER_STRATEGY_SHARD_STATE_H_
#define MUSTER_WORKER_STRATEGY_SHARD_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/loss_scale.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/partition_file.h"
#include "common/checkpoint/storage.h"
#include "common/optim/optimizer.h"
#include "common/partition/dense_layout.h"
#include "common/partition/schema.h"
#include "common/partition/shard_layout.h"
#include "common/tables/row_sum.h"
#include "common/tables/sparse_table.h"
#include "common/tables/table_checkpoint.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/global_norm.h"

namespace muster {

namespace v1 {
class TablesSchema;
}  // namespace v1

// The gradients of one step over all workers, as sums over their examples.
struct GradientSums {
  uint64_t examples = 0;
  // By part of the ShardLayout, the shard's slice of the sums.
  absl::Span<const absl::Span<float>> dense;
  // By sparse table; keys in the order in which all workers' rows were added.
  absl::Span<const RowSum> rows;
  // Squared norms of the cells of all shards (ShardState::CellNorms), in order of shard. Read only
  // where norms are measured; not read where there is one shard.
  absl::Span<const double> cells = {};
};

// A file of a checkpoint, and what of a shard's state is in it.
struct ShardFile {
  std::string checkpoint_root;
  std::string job_id;
  uint64_t generation = 0;
  // The file's number in the manifest.
  uint32_t number = 0;
  // Positions in owned_blocks().
  std::vector<uint32_t> blocks;
  // Partitions whose rows are in the file.
  std::vector<uint32_t> partitions;
  // Of all slots, if they are in this file.
  std::vector<SlotLossScale> loss_scales;
};

// Which of how many shards. REQUIRES: 0 <= index < count.
struct ShardIndex {
  int index = 0;
  int count = 1;
};

// What one of a number of shards holds of a job's parameters: weights and optimizer state of the
// blocks that it owns (ShardLayout), the steps that they have seen, and all rows of sparse tables.
// A single shard holds a whole copy. A step over the same sums gives the same bits here as on the
// servers, whatever the number of shards: cells, their order in the global norm, the one division
// and the optimizer are the same.
//
// Dense values lie in the slice space of ShardLayout, which is the layout's flat space where there
// is one shard. Not thread-safe.
class ShardState {
 public:
  // Creates initial values. InvalidArgument: the schema is not valid.
  static absl::StatusOr<std::unique_ptr<ShardState>> Create(const v1::TablesSchema& schema,
                                                            ShardIndex shard = {});

  ~ShardState();

  const Tables& tables() const { return tables_; }
  const DenseLayout& layout() const { return layout_; }
  const ShardLayout& shard_layout() const { return shard_layout_; }
  ShardIndex shard() const { return shard_; }
  // Returns what the shard owns of blocks, in order.
  absl::Span<const ShardLayout::OwnedBlock> owned_blocks() const { return owned_; }
  // Steps seen, counted from the job's start: the clock of the next one.
  uint64_t clock() const { return clock_; }

  // Returns all weights in the slice space; empty after ReleaseValues. Their address changes only
  // where that of slices does. REQUIRES: no weights are placed elsewhere.
  absl::Span<const float> weights() const {
    return own_weights_ == nullptr ? absl::Span<const float>() : own_weights_->values();
  }
  // Returns the same by tensor, tied ones included. REQUIRES: one shard.
  const std::vector<absl::Span<const float>>& parameters() const { return parameters_; }
  // Returns the weights by part: the shard's slices with their padding, wherever they lie.
  absl::Span<const absl::Span<const float>> slices() const { return readable_slices_; }
  // Returns the weights of one of owned_blocks().
  absl::Span<const float> weights(const ShardLayout::OwnedBlock& owned) const {
    return Of(owned, slices_);
  }

  // Returns the slices of a buffer that holds the slice space, by part.
  std::vector<absl::Span<float>> PartSlices(absl::Span<float> values) const;
  // Returns what the shard owns of each tensor, by tensor, in slices by part; an empty span for a
  // tensor of which it owns nothing, or that is tied.
  std::vector<absl::Span<float>> TensorSlices(absl::Span<const absl::Span<float>> slices) const;

  // Moves the weights to `places`, by part: memory for a slice each, which outlives them there;
  // null where the state's own memory is to hold them, as without any places. The own memory is as
  // large as what it holds.
  void PlaceWeights(absl::Span<float* const> places);

  // Writes the rows of keys of a sparse table; one that was never pushed reads as its initial
  // value.
  void LookUp(size_t table, absl::Span<const uint64_t> keys, absl::Span<float> out) const;
  // Returns the keys of a table that were ever pushed, ascending.
  std::vector<uint64_t> Keys(size_t table) const;

  // Returns the squared norms of the owned cells of sums (GradientSums::dense), in order.
  std::vector<double> CellNorms(absl::Span<const absl::Span<float>> dense) const;
  // Returns the number of cells that each shard owns.
  absl::Span<const size_t> cells_by_shard() const { return cells_by_shard_; }

  // Returns squared norms of the mean gradient by partition, as servers report them: one per dense
  // block, then one per sparse table.
  std::vector<std::vector<double>> SquaredNorms(const GradientSums& sums) const;

  // Returns how clipping by global norm scales the mean gradient, if the job clips so. OutOfRange:
  // the norm is not finite.
  absl::StatusOr<NormClipping> Clipping(const GradientSums& sums) const;

  // Takes one step: the mean gradient times `scale`, limited by value, moves everything that it
  // names. Sums over no examples move nothing: only the clock goes on.
  // REQUIRES: one RowSum per sparse table.
  void Apply(const GradientSums& sums, double scale);

  // Goes back to initial values and clock 0.
  void Reset();

  // Takes a checkpoint over, written from any number of servers or shards; what it does not hold
  // keeps its initial value. The state goes on from `clock`. After an error Reset comes first.
  // NotFound: the checkpoint lacks a tensor or table of the job. InvalidArgument: a table's rows
  // have another length, or its tokenizer is another. DataLoss: damaged.
  absl::Status Restore(const CheckpointReader& checkpoint, RestoreExtent extent, uint64_t clock);

  // Writes a file in the common form. Blocks on the storage.
  absl::StatusOr<PartitionFileInfo> Save(const ShardFile& file, CheckpointStorage& storage) const;

  // Gives back the memory of weights and optimizer state, whose values are lost. Clock, steps and
  // rows stay. REQUIRES: AllocateValues comes before anything that reads or writes values.
  void ReleaseValues();
  // Allocates memory for weights and optimizer state, all zeros; does nothing if there is some.
  void AllocateValues();

  // Everything there is, to be read, or to be filled with that of another rank's same shard.
  struct State {
    absl::Span<float> weights;
    absl::Span<float> optimizer_state;
    // By owned block.
    absl::Span<uint64_t> steps;
    // By sparse table.
    absl::Span<SparseTable> rows;
  };
  // REQUIRES: no weights are placed elsewhere.
  State state();
  void set_clock(uint64_t clock) { clock_ = clock; }
  // Forgets all rows.
  void ClearRows();

 private:
  // The cells that some shard owns of a block.
  struct BlockCells {
    uint32_t id = 0;
    size_t count = 0;
  };

  ShardState(const v1::TablesSchema& schema, ShardIndex shard,
             std::unique_ptr<const Optimizer> dense_optimizer,
             std::unique_ptr<const Optimizer> row_optimizer);

  void CountCells();
  void SetSlices(std::vector<absl::Span<float>> slices);
  // Returns the elements of an owned block in slices by part.
  absl::Span<float> Of(const ShardLayout::OwnedBlock& owned,
                       absl::Span<const absl::Span<float>> slices) const;
  absl::Span<float> OptimizerState(const ShardLayout::OwnedBlock& owned) const;

  const std::unique_ptr<const v1::TablesSchema> schema_;
  const Tables tables_;
  const DenseLayout layout_;
  const ShardIndex shard_;
  const ShardLayout shard_layout_;
  const std::vector<ShardLayout::OwnedBlock> owned_;
  const std::unique_ptr<const Optimizer> dense_optimizer_;
  const std::unique_ptr<const Optimizer> row_optimizer_;
  // Floats of state that one weight needs.
  const size_t state_per_weight_;

  // Of all shards, in order of shard and block.
  std::vector<BlockCells> block_cells_;
  std::vector<size_t> cells_by_shard_;
  // By owned block, its first cell among the shard's own.
  std::vector<size_t> first_cells_;

  // Weights that are not placed elsewhere. Without values it and optimizer_state_ are empty.
  std::unique_ptr<Arena> own_weights_;
  // In the slice space, each owned block's state arrays one after another.
  std::unique_ptr<Arena> optimizer_state_;
  // By part, where its weights are; the same twice.
  std::vector<absl::Span<float>> slices_;
  std::vector<absl::Span<const float>> readable_slices_;
  std::vector<absl::Span<const float>> parameters_;
  // By owned block.
  std::vector<uint64_t> steps_;
  // By sparse table.
  std::vector<SparseTable> rows_;
  uint64_t clock_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SHARD_STATE_H_
