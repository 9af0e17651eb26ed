#ifndef MUSTER_WORKER_STRATEGY_SHARD_STATE_H_
#define MUSTER_WORKER_STRATEGY_SHARD_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/loss_scale.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/partition_file.h"
#include "common/checkpoint/storage.h"
#include "common/mesh/mesh.h"
#include "common/optim/optimizer.h"
#include "common/partition/dense_layout.h"
#include "common/partition/matrix_rounds.h"
#include "common/partition/schema.h"
#include "common/partition/shard_layout.h"
#include "common/partition/sparse_placement.h"
#include "common/tables/row_sum.h"
#include "common/tables/sparse_table.h"
#include "common/tables/table_checkpoint.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/global_norm.h"
#include "worker/strategy/norm_cells.h"
#include "worker/strategy/offloaded_floats.h"

namespace muster {

namespace v1 {
class TablesSchema;
}  // namespace v1

// The gradients of one step over all workers, as sums over their examples.
struct GradientSums {
  uint64_t examples = 0;
  // The shard's slices of the sums, by part of ShardState::trained_shards.
  absl::Span<const absl::Span<float>> dense;
  // The shard's rows by sparse table; keys are in the order in which all workers' rows were added.
  absl::Span<const RowSum> rows;
  // Squared norms of the cells of all shards of all tensor ranks and stages
  // (ShardState::CellNorms), in order of position along kStateAxes. Read only if norms are measured
  // and there are several shards.
  absl::Span<const double> cells = {};
};

// A file of a checkpoint, and the content of a shard's state that is in it.
struct ShardFile {
  std::string checkpoint_root;
  std::string job_id;
  uint64_t generation = 0;
  // The file's number in the manifest.
  uint32_t number = 0;
  // The blocks in the file, as positions in owned_blocks().
  std::vector<uint32_t> blocks;
  // The partitions whose rows are in the file.
  std::vector<uint32_t> partitions;
  // The loss scales of all slots, if they are in this file.
  std::vector<SlotLossScale> loss_scales;
};

// One shard of a job's parameters, named by its position along kStateAxes: weights and optimizer
// state of the blocks that it owns
// (ShardLayout), the number of steps that they have seen, and the rows of sparse tables that it
// owns (SparseShard). Of several tensor ranks or stages, each has the shards of its shares of dense
// tensors (LocalTensors), laid out for themselves. A single shard of a single such rank holds a
// whole copy. A step over the same sums gives the same bits here as on the servers, whatever the
// number of shards: cells, their order in the global norm, the one division and the optimizer are
// the same.
//
// Dense values lie in the slice space of ShardLayout; with one shard that is the layout's flat
// space. Optimizer state may be offloaded to a file (OffloadedFloats), which all methods but
// state() go through in the order of blocks, with some MiB of it in memory at a time. Not
// thread-safe.
class ShardState {
 public:
  // Creates a state with initial values, whose optimizer state is in a file in `offload_folder`, if
  // there is one. InvalidArgument: the schema is not valid or of another number of stages, or
  // tensor ranks cannot divide its tensors, or it has sparse tables besides several tensor ranks or
  // stages. Otherwise errors are OffloadedFloats'.
  static absl::StatusOr<std::unique_ptr<ShardState>> Create(
      const v1::TablesSchema& schema, const MeshPosition& shard = {},
      const absl::optional<std::string>& offload_folder = absl::nullopt);

  ~ShardState();

  // Returns the job's tables, of dense tensors the rank's shares, and their layout.
  const Tables& tables() const { return tables_; }
  const DenseLayout& layout() const { return layout_; }
  const ShardLayout& shard_layout() const { return shard_layout_; }
  // Return what gradients, their sums and optimizer state have of both (DenseLayout::Trained): the
  // first parts, and the start of the slice space.
  const DenseLayout& trained_layout() const { return trained_layout_; }
  const ShardLayout& trained_shards() const { return trained_shards_; }
  const MeshPosition& shard() const { return shard_; }
  // Returns the shard's share of blocks, in order.
  absl::Span<const ShardLayout::OwnedBlock> owned_blocks() const { return owned_; }
  // Returns the number of steps seen since the job's start, which is the clock of the next one.
  uint64_t clock() const { return clock_; }

  // Returns all weights in the slice space; empty after ReleaseValues. Their address changes only
  // when the slices' does. REQUIRES: no weights are placed elsewhere.
  absl::Span<const float> weights() const {
    return own_weights_ == nullptr ? absl::Span<const float>() : own_weights_->values();
  }
  // Returns the weights by tensor, tied ones included. REQUIRES: one shard.
  const std::vector<absl::Span<const float>>& parameters() const { return parameters_; }
  // Returns the weights by part: the shard's slices with their padding, wherever they lie.
  absl::Span<const absl::Span<const float>> slices() const { return readable_slices_; }
  // Returns the weights of one of owned_blocks().
  absl::Span<const float> weights(const ShardLayout::OwnedBlock& owned) const {
    return Of(owned, slices_);
  }

  // Returns the slices of a buffer that holds the slice space, or what is trained of it, by part.
  std::vector<absl::Span<float>> PartSlices(absl::Span<float> values) const;
  // Returns the shard's share of each tensor, by tensor, in slices by part. The span is empty for a
  // tensor that is tied, of which the shard owns nothing, or that has no slices: a frozen one's
  // sum.
  std::vector<absl::Span<float>> TensorSlices(absl::Span<const absl::Span<float>> slices) const;

  // Moves the weights to `places`: by part, memory for a slice, which must outlive the weights
  // there. Null places, or no places, mean the state's own memory, which is as large as needed.
  void PlaceWeights(absl::Span<float* const> places);

  // Returns the shard that owns the rows of a key.
  uint32_t OwnerOf(uint64_t key) const {
    return SparseShard(key, layout_.partitions(),
                       static_cast<uint32_t>(shard_layout_.holders().shards));
  }
  // Reads the rows of keys of a sparse table into `out`; a row that was never pushed has its
  // initial value. REQUIRES: the shard owns them.
  void LookUp(size_t table, absl::Span<const uint64_t> keys, absl::Span<float> out) const;
  // Returns the shard's rows that were ever pushed, by sparse table.
  absl::Span<const SparseTable> rows() const { return rows_; }

  // Returns the squared norms of the owned cells of sums (GradientSums), in order. A table's rows
  // of one partition are a cell, too; these follow those of blocks, table by table.
  std::vector<double> CellNorms(absl::Span<const absl::Span<float>> dense,
                                absl::Span<const RowSum> rows) const;
  // Returns the floats of optimizer state of dense tensors in a shard where there are so many.
  size_t state_floats(const Holders& holders) const;
  // Returns the number of cells of each shard, by position along kStateAxes.
  absl::Span<const size_t> cells_by_shard() const { return cells_by_shard_; }

  // Returns squared norms of the mean gradient by partition, as servers report them: one per dense
  // block, then one per sparse table. REQUIRES: one tensor rank of one stage.
  std::vector<std::vector<double>> SquaredNorms(const GradientSums& sums) const;

  // Returns how clipping by global norm scales the mean gradient, if the job clips by it.
  // OutOfRange: the norm is not finite.
  absl::StatusOr<NormClipping> Clipping(const GradientSums& sums) const;

  // Takes one step with the mean gradient times `scale`, limited by value, at the scheduled rate
  // times `rate_factor`. Of matrices of which the shard has a part, their orthogonalised directions
  // are there (MatrixExchange). Sums over no examples move nothing; only the clock goes on.
  // REQUIRES: one RowSum per sparse table.
  void Apply(const GradientSums& sums, double scale, double rate_factor = 1);

  // Returns whether ranks may have but parts of matrices that move as a whole (MatrixRule); the
  // same on all ranks of a job.
  bool divides_matrices() const;
  // Returns this rank's part in orthogonalising those, among the ranks along kMatrixAxes. Errors
  // are the layouts' of these ranks.
  absl::StatusOr<std::vector<MatrixRound>> MakeMatrixRounds() const;
  // Writes the directions of a step of blocks that are parts of matrices, which Apply of the same
  // step reads once they are orthogonalised.
  void DirectMatrices(const GradientSums& sums, double scale);
  // Returns the direction of one of owned_blocks(), which is of a matrix.
  absl::Span<float> Direction(size_t block);
  // Copy the directions of blocks that are parts of matrices to, or from, a buffer of what is
  // trained of the slice space.
  void ReadDirections(absl::Span<float> slice);
  void WriteDirections(absl::Span<const float> slice);

  // Goes back to initial values and clock 0.
  void Reset();

  // Restores a checkpoint that any number of servers or shards wrote; what it does not hold keeps
  // its initial value. The state goes on from `clock`. After an error, call Reset before anything
  // else. NotFound: the checkpoint lacks a tensor or table of the job. InvalidArgument: a table's
  // rows have another length, its tokenizer is another, or it has no averages to restore. DataLoss:
  // the checkpoint is damaged.
  absl::Status Restore(const CheckpointReader& checkpoint, RestoreExtent extent, uint64_t clock);

  // Returns what a file holds, for WritePartition. Valid until the state changes.
  PartitionContent Content(const ShardFile& file) const;
  // Writes a file in the common form. Blocks on the storage.
  absl::StatusOr<PartitionFileInfo> Save(const ShardFile& file, CheckpointStorage& storage) const;

  // Frees the memory of weights and optimizer state, whose values are lost. Clock, steps and rows
  // stay. Call AllocateValues before reading or writing values again.
  void ReleaseValues();
  // Allocates memory for weights and optimizer state, all zeros; does nothing if there is some. An
  // offloaded state keeps its file and its values throughout.
  void AllocateValues();

  // The whole state, to be read, or to be overwritten with another rank's copy of the same shard.
  struct State {
    absl::Span<float> weights;
    absl::Span<float> optimizer_state;
    // The number of steps, by owned block.
    absl::Span<uint64_t> steps;
    // Rows by sparse table.
    absl::Span<SparseTable> rows;
  };
  // Returns the whole state. REQUIRES: no weights are placed elsewhere.
  State state();
  // Unmaps what was read or written of an offloaded optimizer state through state() or Direction.
  void UnmapState();
  void set_clock(uint64_t clock) { clock_ = clock; }
  // Counts a step of all owned blocks that was made where their values are now.
  void CountStep() {
    for (uint64_t& steps : steps_) ++steps;
  }
  // Forgets all rows.
  void ClearRows();

 private:
  // The parts of a state that are made of a valid schema.
  struct Parts {
    Tables tables;
    DenseLayout layout;
    // The cells of each tensor rank of each stage (position along kPartAxes).
    std::vector<NormCells> cells;
    std::unique_ptr<const Optimizer> dense_optimizer;
    std::unique_ptr<const Optimizer> row_optimizer;
  };

  static absl::StatusOr<Parts> MakeParts(const v1::TablesSchema& schema, const MeshPosition& shard);

  ShardState(const v1::TablesSchema& schema, const MeshPosition& shard, Parts parts);

  // Owned blocks [first, last), whose optimizer state is in memory at the same time.
  struct Window {
    size_t first = 0;
    size_t last = 0;
  };

  // Returns the scalars of the optimizer step at the shard's clock.
  OptimizerStep StepOf(const GradientSums& sums, double scale, double rate_factor = 1) const;
  // Returns whether the shard has all, or a part, of a matrix that moves as a whole.
  bool HasWholeMatrix(const ShardLayout::OwnedBlock& owned) const;
  bool HasPartOfMatrix(const ShardLayout::OwnedBlock& owned) const;
  void CountCells();
  // Returns the squared norms of cells, or of this rank's own if nobody else has any, by
  // coordinate.
  std::vector<absl::Span<const double>> CellsByShard(absl::Span<const double> cells) const;
  // Returns the squared norm of the mean gradient over all tensor ranks and stages.
  double SquaredNormOfAll(const GradientSums& sums) const;
  void MakeWindows();
  void SetSlices(std::vector<absl::Span<float>> slices);
  // Returns the elements of an owned block in slices by part.
  absl::Span<float> Of(const ShardLayout::OwnedBlock& owned,
                       absl::Span<const absl::Span<float>> slices) const;
  absl::Span<float> OptimizerState() const;
  absl::Span<float> OptimizerState(const ShardLayout::OwnedBlock& owned) const;
  // Returns the floats of the optimizer state of a window.
  OffloadedFloats::Range FloatsOf(const Window& window) const;
  // Calls `work` for windows in order. The next one's optimizer state is read ahead meanwhile.
  void ForEachWindow(absl::FunctionRef<void(const Window&)> work) const;

  const std::unique_ptr<const v1::TablesSchema> schema_;
  const Tables tables_;
  const DenseLayout layout_;
  const DenseLayout trained_layout_;
  const MeshPosition shard_;
  const ShardLayout shard_layout_;
  const ShardLayout trained_shards_;
  const std::vector<ShardLayout::OwnedBlock> owned_;
  const std::unique_ptr<const Optimizer> dense_optimizer_;
  const std::unique_ptr<const Optimizer> row_optimizer_;
  // The number of floats of optimizer state for each weight.
  const size_t state_per_weight_;

  // The cells of each tensor rank of each stage.
  const std::vector<NormCells> cells_;
  std::vector<size_t> cells_by_shard_;
  // The index of each owned block's first cell among the shard's own.
  std::vector<size_t> first_cells_;

  // All owned blocks in order. A single window if optimizer state is in memory. Const after Create.
  std::vector<Window> windows_;

  // The weights that are not placed elsewhere. Empty without values, and so is optimizer_state_.
  std::unique_ptr<Arena> own_weights_;
  // The optimizer state in the slice space's trained start: each owned block's arrays, one after
  // another. In memory, or offloaded.
  std::unique_ptr<Arena> optimizer_state_;
  std::unique_ptr<const OffloadedFloats> offloaded_state_;
  // The weights of each part where they lie: writable, and readable.
  std::vector<absl::Span<float>> slices_;
  std::vector<absl::Span<const float>> readable_slices_;
  std::vector<absl::Span<const float>> parameters_;
  // The number of steps, by owned block.
  std::vector<uint64_t> steps_;
  // Rows by sparse table.
  std::vector<SparseTable> rows_;
  uint64_t clock_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SHARD_STATE_H_
