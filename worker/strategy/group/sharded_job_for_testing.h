#ifndef MUSTER_WORKER_STRATEGY_GROUP_SHARDED_JOB_FOR_TESTING_H_
#define MUSTER_WORKER_STRATEGY_GROUP_SHARDED_JOB_FOR_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/checkpoint/memory_storage.h"
#include "common/checkpoint/storage.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"
#include "proto/schema.pb.h"
#include "worker/strategy/group/sharded_strategy.h"

namespace muster {

// A small job under any stage of ZeRO.
struct ShardedJob {
  uint32_t stage = 0;
  int ranks = 1;
  // The number of shards; 0: all data ranks.
  int shard = 0;
  int micro_batches = 1;
  double max_norm = 0;
  DType compute = DType::kF32;
  // Memory for units that stay gathered.
  uint64_t kept_bytes = 0;
  // Keeps copies of shards; and the number of neighbouring ranks on each worker daemon.
  bool redundant = false;
  int ranks_per_daemon = 1;
  // Groups may have fewer ranks.
  bool may_shrink = false;
  // The folder for optimizer state; empty: it is in memory.
  std::string offload_folder;
  // The number of tensor ranks: 1, 2 or 4.
  int tensor = 1;
  // A tensor of matrices moves by Muon.
  bool has_matrices = false;
  // There are sparse tables, too.
  bool has_rows = false;

  // Returns the mesh of its ranks.
  Mesh mesh() const {
    const int shards = stage == 0 ? 1 : shard == 0 ? ranks / tensor : shard;
    return Mesh({.replica = ranks / tensor / shards, .shard = shards, .tensor = tensor});
  }
};

// Returns a schema of four units: sizes that no number of ranks divides, a tensor that does not
// decay, one that moves by the signs of its gradient, and a last unit with a tensor that is tied to
// the first unit's. Tensor ranks divide it with replicated elements, elements that two or all of
// them share, and a tensor that only the first has. Two sparse tables have rows of different
// lengths.
v1::TablesSchema Schema(const ShardedJob& job);

// A clock that advances by a second at each reading, so that timed calls count. For one thread.
class TickingClock final : public Clock {
 public:
  absl::Duration Monotonic() const override { return absl::Seconds(++looks_); }
  absl::Time Wall() const override { return absl::UnixEpoch(); }

 private:
  mutable int looks_ = 0;
};

// One slot's task: its strategy, and a model whose gradients depend on weights, clock and data rank
// in the group. Of elements that tensor ranks share, each has a part of the gradient.
class ShardedTask {
 public:
  static constexpr int kUnits = 4;

  ShardedTask(const ShardedJob& job, int slot, CheckpointStorage& storage,
              const std::string& restore_uri = "", uint64_t start_clock = 0);

  ShardedStrategy& strategy() { return *strategy_; }
  const ShardedStrategy& strategy() const { return *strategy_; }
  const std::vector<TensorSpec>& tensors() const {
    return strategy_->shard_state().tables().tensors;
  }

  // Runs a forward-only pass. Returns the weights that it read, by tensor.
  std::vector<std::vector<float>> Evaluate();

  // Makes one element of the rank's gradient infinite in the next step's first micro-batch.
  void Overflow() { overflows_ = true; }

  absl::Status Step();

 private:
  void Read(int unit);
  // Makes a call of the tensor group, if there is one.
  absl::Status MeetTensorRanks();
  absl::Status Forward(int unit);
  // Element `local` of the rank's share of a tensor, which is element `global` of the tensor.
  struct Element {
    uint64_t local = 0;
    uint64_t global = 0;
  };
  // Returns the rank's part of the element's gradient, and all of it.
  float Gradient(uint64_t clock, int m, size_t tensor, const Element& element) const;
  float WholeGradient(uint64_t clock, int m, size_t tensor, const Element& element) const;
  void Write(uint64_t clock, int m, int unit);
  // Returns the rows that a micro-batch looks up, which other ranks also do in part.
  MicroBatch RowsOf(uint64_t clock, int m) const;
  void WriteRows(uint64_t clock, int m, MicroBatch& micro_batch) const;
  absl::Status RunMicroBatch(uint64_t clock, int m);

  const ShardedJob job_;
  const TickingClock clock_;
  std::unique_ptr<ShardedStrategy> strategy_;
  std::vector<std::vector<float>> read_;
  bool overflows_ = false;
};

// The flat spaces of the tensor ranks one after another, made from the ranks' own slices; then all
// rows, each after its key, in order of table and key. Thread-safe.
class Whole {
 public:
  void Add(const ShardState& state);
  std::vector<float> weights() const;

 private:
  mutable absl::Mutex mutex_;
  // The weights of each tensor rank.
  std::map<int, std::vector<float>> weights_ ABSL_GUARDED_BY(mutex_);
  // The rows by table and key.
  std::map<std::pair<size_t, uint64_t>, std::vector<float>> rows_ ABSL_GUARDED_BY(mutex_);
};

// Trains the job to a clock, and returns its weights.
std::vector<float> Train(const ShardedJob& job, uint64_t end, const std::string& restore_uri = "",
                         uint64_t start_clock = 0, MemoryStorage* storage = nullptr);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_SHARDED_JOB_FOR_TESTING_H_
