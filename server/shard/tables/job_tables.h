#ifndef MUSTER_SERVER_SHARD_TABLES_JOB_TABLES_H_
#define MUSTER_SERVER_SHARD_TABLES_JOB_TABLES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mesh/mesh.h"
#include "common/optim/optimizer.h"
#include "common/partition/dense_layout.h"
#include "common/partition/schema.h"
#include "common/partition/served_layout.h"
#include "server/shard/tables/row_policy.h"
#include "server/shard/tables/staleness_policy.h"

namespace muster {

namespace v1 {
class OpenTablesRequest;
}  // namespace v1

// Order in which gradients are summed under BSP.
enum class SummationOrder {
  // Order of arrival.
  kArrival,
  // Order of data ranks, and of the context ranks of each; early gradients wait. If slots push
  // micro-batches, a slot's are first summed in order. Gives the same bits from run to run.
  kSlot,
};

// All that a job's partitions have in common, derived from the request that opened them. Immutable,
// so thread-safe; shared by the partitions.
class JobTables {
 public:
  // INVALID_ARGUMENT names the field, its value and what would be right.
  static absl::StatusOr<std::shared_ptr<const JobTables>> Create(
      const v1::OpenTablesRequest& request);

  // Returns the tables of an earlier generation with so many slots, which this one can go on with.
  // Errors as Create.
  absl::StatusOr<std::shared_ptr<const JobTables>> Earlier(uint64_t generation,
                                                           uint32_t slots) const;

  ~JobTables();

  const v1::OpenTablesRequest& request() const { return *request_; }
  const std::string& job_id() const;
  uint64_t generation() const;
  uint32_t slots() const;
  // Returns the mesh of the slots. Each rank that divides the model pushes some of the blocks
  // (BlockPushers).
  const Mesh& mesh() const { return mesh_; }
  // Return a slot's position among the slots that push a block, each its own part of the gradient,
  // and the number of these: one for each context rank of each data rank, and of blocks of experts
  // one for each of these that has the experts.
  uint32_t PusherOf(uint32_t slot, const DenseLayout::Block& block) const {
    return mesh_.Position(static_cast<int>(slot), AxesOf(block));
  }
  uint32_t pushers(const DenseLayout::Block& block) const { return mesh_.size(AxesOf(block)); }
  // Returns whether the examples of a block's gradient are those of all slots, of which only some
  // push it: tokens of others came to these (a block of experts that expert ranks share out).
  bool has_others_examples(const DenseLayout::Block& block) const {
    return layout_.parts()[block.part].experts;
  }
  // Returns which ranks push the partition's blocks, in order; none if there is one rank,
  // which pushes all.
  std::vector<BlockPushers> PushersOf(uint32_t partition) const;
  uint32_t partitions() const { return layout_.partitions(); }
  // Returns the fingerprint of all that must be equal for two requests to mean the same tables.
  uint64_t fingerprint() const { return fingerprint_; }

  // Return the tables, and the layout of the dense tensors; of several ranks these are
  // ServedTensors.
  const Tables& tables() const { return tables_; }
  const DenseLayout& layout() const { return layout_; }
  uint64_t seed() const;
  const Optimizer& dense_optimizer() const { return *dense_optimizer_; }
  const Optimizer& row_optimizer() const { return *row_optimizer_; }

  StalenessPolicy policy() const { return policy_; }
  SummationOrder order() const { return order_; }
  // Returns whether slots push the gradients of single micro-batches, from memory that they reuse
  // once a push is answered.
  bool pushes_micro_batches() const;
  // Returns whether values before the last clock's update are kept for slots that repeat the clock.
  // They are kept in slot order, and where slots must read one version: if they pull again for
  // backward, or if several compute the model together.
  bool keeps_previous() const {
    return order_ == SummationOrder::kSlot || pushes_micro_batches() || mesh_.size(kShareAxes) > 1;
  }
  // Returns how often a slot pushes each dense block in a clock.
  uint32_t pushes_of_block() const;
  // Returns whether a push is on disk before it is acknowledged.
  bool durable() const { return durable_; }
  RowPolicy row_policy() const;
  // Returns the bound on the memory of one partition's rows, its share of the job's; 0: none.
  uint64_t cache_bytes() const;
  // Returns whether each dense block's steps are numbered by themselves under BSP, too.
  bool own_steps() const;
  // Returns whether the update of a clock waits for the scale of global-norm clipping.
  bool clips_by_norm() const { return clips_by_norm_; }

  // Returns how many slots each clock may leave out (UpdateSpec.backup_workers), fewer than
  // slots().
  uint32_t backup_workers() const;

  // Returns the optimizer step of a clock for gradients to be multiplied by `scale`, at the
  // scheduled rate times `rate_factor`; its count of steps is the clock's. Under SSP and ASP the
  // rate is divided by the number of slots, so that one push of each slot moves as far as one
  // synchronous step.
  OptimizerStep StepAt(uint64_t clock, double scale, double rate_factor = 1) const;

  // Bytes that the dense blocks of a partition take: weights, optimizer state and, under BSP, sums.
  uint64_t PredictedDenseBytes(uint32_t partition) const;

 private:
  JobTables(const v1::OpenTablesRequest& request, ServedTensors dense);

  Axes AxesOf(const DenseLayout::Block& block) const {
    return AxesOfPushers(layout_.parts()[block.part]);
  }

  std::unique_ptr<const v1::OpenTablesRequest> request_;
  uint64_t fingerprint_ = 0;
  // By block of the layout; empty if there is one rank.
  std::vector<BlockPushers> pushers_;
  Tables tables_;
  DenseLayout layout_;
  const Mesh mesh_;
  std::unique_ptr<const Optimizer> dense_optimizer_;
  std::unique_ptr<const Optimizer> row_optimizer_;
  StalenessPolicy policy_ = StalenessPolicy::Bounded(0);
  SummationOrder order_ = SummationOrder::kArrival;
  bool durable_ = false;
  bool clips_by_norm_ = false;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_JOB_TABLES_H_
