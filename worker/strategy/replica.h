#ifndef MUSTER_WORKER_STRATEGY_REPLICA_H_
#define MUSTER_WORKER_STRATEGY_REPLICA_H_

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
  // The layout's flat space.
  absl::Span<const float> dense;
  // By sparse table; keys in the order in which all workers' rows were added.
  absl::Span<const RowSum> rows;
};

// Which file of a checkpoint a replica writes.
struct ReplicaFile {
  std::string checkpoint_root;
  std::string job_id;
  uint64_t generation = 0;
  // The partition whose blocks and rows go into it, and the file's number in the manifest.
  uint32_t partition = 0;
  uint32_t number = 0;
  // Of all slots, if they go into this one.
  std::vector<SlotLossScale> loss_scales;
};

// A whole copy of a job's parameters in one process: weights, optimizer state, rows, and the steps
// they have seen. A step over the same sums gives the same bits here as on the servers: blocks,
// their order in the global norm, the one division and the optimizer are the same.
//
// Not thread-safe.
class Replica {
 public:
  // Initial values. InvalidArgument: the schema is not valid.
  static absl::StatusOr<std::unique_ptr<Replica>> Create(const v1::TablesSchema& schema);

  ~Replica();

  const Tables& tables() const { return tables_; }
  const DenseLayout& layout() const { return layout_; }
  // Steps seen, counted from the job's start: the clock of the next one.
  uint64_t clock() const { return clock_; }

  // The flat space; empty after ReleaseValues. Its address changes with no other call.
  absl::Span<const float> weights() const { return weights_; }
  // The same by tensor, tied ones included.
  const std::vector<absl::Span<const float>>& parameters() const { return parameters_; }
  // Writes the rows of keys of a sparse table; one that was never pushed reads as its initial
  // value.
  void LookUp(size_t table, absl::Span<const uint64_t> keys, absl::Span<float> out) const;
  // Keys of a table that were ever pushed, ascending.
  std::vector<uint64_t> Keys(size_t table) const;

  // Squared norms of the mean gradient by partition, as servers report them: one per dense block,
  // then one per sparse table.
  std::vector<std::vector<double>> SquaredNorms(const GradientSums& sums) const;

  // Returns how clipping by global norm scales the mean gradient, if the job clips so. OutOfRange:
  // the norm is not finite.
  absl::StatusOr<NormClipping> Clipping(const GradientSums& sums) const;

  // One step: the mean gradient times `scale`, limited by value, moves everything that it names.
  // Sums over no examples move nothing: only the clock goes on.
  // REQUIRES: dense sums of the layout's size, one RowSum per sparse table.
  void Apply(const GradientSums& sums, double scale);

  // Back to initial values and clock 0.
  void Reset();

  // Takes a checkpoint over, written from any number of servers or workers; what it does not hold
  // keeps its initial value. The replica goes on from `clock`. After an error Reset comes first.
  // NotFound: the checkpoint lacks a tensor or table of the job. InvalidArgument: a table's rows
  // have another length, or its tokenizer is another. DataLoss: damaged.
  absl::Status Restore(const CheckpointReader& checkpoint, RestoreExtent extent, uint64_t clock);

  // Writes one partition's blocks and rows in the common form. Blocks on the storage.
  absl::StatusOr<PartitionFileInfo> Save(const ReplicaFile& file, CheckpointStorage& storage) const;

  // Gives back the memory of weights and optimizer state, whose values are lost. Clock, steps and
  // rows stay. REQUIRES: AllocateValues comes before anything that reads or writes values.
  void ReleaseValues();
  // Allocates memory for weights and optimizer state, all zeros; does nothing if there is some.
  void AllocateValues();

  // Everything there is, to be read, or to be filled with another replica's.
  struct State {
    absl::Span<float> weights;
    absl::Span<float> optimizer_state;
    // By dense block.
    absl::Span<uint64_t> steps;
    // By sparse table.
    absl::Span<SparseTable> rows;
  };
  State state();
  void set_clock(uint64_t clock) { clock_ = clock; }
  // Forgets all rows.
  void ClearRows();

 private:
  Replica(const v1::TablesSchema& schema, std::unique_ptr<const Optimizer> dense_optimizer,
          std::unique_ptr<const Optimizer> row_optimizer);

  absl::Span<float> BlockState(const DenseLayout::Block& block);

  const std::unique_ptr<const v1::TablesSchema> schema_;
  const Tables tables_;
  const DenseLayout layout_;
  const std::unique_ptr<const Optimizer> dense_optimizer_;
  const std::unique_ptr<const Optimizer> row_optimizer_;
  // Floats of state that one weight needs.
  const size_t state_per_weight_;

  struct Values {
    Arena weights;
    Arena state;
  };
  // Null: released.
  std::unique_ptr<Values> values_;
  // Both lie in values_.
  absl::Span<float> weights_;
  // Block by block, each block's state arrays one after another.
  absl::Span<float> state_;
  std::vector<absl::Span<const float>> parameters_;
  // By dense block.
  std::vector<uint64_t> steps_;
  // By sparse table.
  std::vector<SparseTable> rows_;
  uint64_t clock_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_REPLICA_H_
