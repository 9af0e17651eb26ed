#ifndef MUSTER_SERVER_SHARD_TABLES_DENSE_TABLE_H_
#define MUSTER_SERVER_SHARD_TABLES_DENSE_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "server/shard/tables/job_tables.h"
#include "server/shard/tables/versioned_buffer.h"

namespace muster {

// One partition's blocks of the dense table, in memory: weights, optimizer state, and under BSP the
// sums of the open clock's gradients. Blocks are named by their index within the partition.
//
// A clock's step is made block by block, when somebody looks at the block or in Settle. So nobody
// sees a block before its step, and those who wait for the first blocks get them early.
//
// One thread at a time calls the methods; what Pull returns may be read on any thread.
class DenseTable {
 public:
  struct Block {
    // Place of the block in the flat space, and its pieces.
    const DenseLayout::Block* layout;
    VersionedBuffer weights;
    // The weights before the last clock's update; null when they are not kept.
    std::shared_ptr<const float> previous;
    // State arrays one after another, each as long as the weights.
    VersionedBuffer state;
    // Number of updates.
    uint64_t steps = 0;
    // Log sequence number of the last record that changed it.
    uint64_t lsn = 0;

    // Return the optimizer state, to change or to look at.
    absl::Span<float> state_values() { return state.Write(); }
    absl::Span<const float> state_values() const { return state.Peek(); }
  };

  // Starts with initial values. Arrays come from `pool`.
  DenseTable(std::shared_ptr<const JobTables> tables, uint32_t partition,
             std::shared_ptr<BufferPool> pool);

  // Goes on as the table of a later generation of the job, whose slots may be others: makes the
  // steps that are left, and forgets the open clock's gradients and the previous weights. REQUIRES:
  // equal schemas; the first tables outlive it.
  void GoOnWith(std::shared_ptr<const JobTables> tables);

  uint32_t size() const { return blocks_.size(); }
  const DenseLayout::Block& layout(uint32_t block) const { return *blocks_[block].layout; }
  // Bytes of the weights of blocks [first, first + count). REQUIRES: they exist.
  uint64_t PayloadBytes(uint32_t first, uint32_t count) const {
    return (offsets_[first + count] - offsets_[first]) * sizeof(float);
  }
  // Bytes of weights and state; memory_bytes() includes the sums.
  uint64_t value_bytes() const;
  uint64_t memory_bytes() const;

  // Weights that a pull is to see.
  enum class Version {
    kCurrent,
    // The weights before the last ApplySums. REQUIRES: JobTables::keeps_previous(), and ApplySums
    // has run.
    kPrevious,
  };

  // Returns the weights of blocks [first, first + count), which never change once returned.
  // REQUIRES: the blocks exist.
  Payload Pull(uint32_t first, uint32_t count, Version version);

  // Says whether a gradient can be kept as it came: kScarce, in memory that the next gradients
  // need; kFree, in memory that nobody misses; kImpossible, since the sender reuses the memory.
  enum class Keeping { kScarce, kFree, kImpossible };
  // Adds a pusher's gradient to a block's sum; once per clock or, if slots push micro-batches,
  // once per micro-batch, in order. REQUIRES: the gradient is as long as the weights.
  void Accumulate(uint32_t block, uint32_t pusher, Payload gradient,
                  Keeping keeping = Keeping::kScarce);
  // Adds the gradients that wait for their pusher's turn. REQUIRES: the clock is closed.
  void FinishSums();
  // Returns the squared norm of a block's sum; 0 when nothing was added, or the norm leaves the
  // block out. REQUIRES: FinishSums.
  double SquaredNormOfSum(uint32_t block);
  // Ends a clock: one optimizer step on every block that has a sum (unless the block includes
  // `lsn`; 0: there is no log), and empty sums for all. `gradient_scales`, by block, replace the
  // step's; a block without one stays as it is. With JobTables::own_steps() the step's number is
  // the block's own. REQUIRES: FinishSums.
  void ApplySums(const OptimizerStep& step, std::vector<absl::optional<float>> gradient_scales,
                 uint64_t lsn);
  // Makes the steps of the last ApplySums that nobody asked for yet, which frees their sums.
  void Settle();
  bool settled() const { return unsettled_ == 0; }

  // Makes one optimizer step on one block, counted by the block, unless the block includes `lsn`.
  // REQUIRES: as for Accumulate.
  void Update(uint32_t block, const Payload& gradient, const OptimizerStep& step, uint64_t lsn);

  Block& block(uint32_t block) {
    Settle(block);
    return blocks_[block];
  }

 private:
  struct Contribution {
    Payload gradient;
    // Bytes counted in kept_bytes_.
    size_t scarce_bytes = 0;
    Keeping keeping = Keeping::kFree;
  };
  struct Sum {
    // Contributions in order of their addition, each contiguous and kept as it came. The first is
    // kept because with one worker there is no other, and with several the next usually follows
    // soon. More are kept where they are free: a sum that is made right before the step stays in
    // the caches. Empty once there are values.
    std::vector<Contribution> kept;
    // Null until something is added that is not kept.
    std::shared_ptr<float> values;
    // The first pusher that has not been added, and contributions of later ones that came early.
    uint32_t next_rank = 0;
    std::map<uint32_t, Contribution> early;
    // The sum and the number of a pusher's micro-batches so far; used in slot order only.
    struct Unfinished {
      std::shared_ptr<float> values;
      uint32_t micro_batches = 0;
    };
    std::map<uint32_t, Unfinished> unfinished;

    bool empty() const { return kept.empty() && values == nullptr; }
  };

  void Add(uint32_t block, const Payload& gradient, Keeping keeping);
  // Adds a pusher's next micro-batch to those before it. Returns the sum, in the table's own
  // memory, once all micro-batches are in; nothing before.
  absl::optional<Payload> AddMicroBatch(uint32_t block, uint32_t pusher, const Payload& gradient);
  // Accumulates in slot order. `gradient` is all that the pusher adds in the clock.
  void AddInTurn(uint32_t block, uint32_t pusher, Payload gradient, Keeping keeping);
  // Turns what is kept into values.
  void AddKept(uint32_t block, Sum& sum);
  // Returns the bytes that a sum takes of the server's memory and of scarce memory.
  uint64_t MemoryOf(uint32_t block, const Sum& sum) const;
  // Adds contributions that came early: those whose turn it is, or all.
  enum class Turn { kOwn, kAny };
  void AddEarly(uint32_t block, Turn turn);
  // Returns whether a contribution to a block that is not free to keep can be kept as it came.
  bool HasRoomFor(uint32_t block, const Payload& gradient, Keeping keeping) const;
  // Returns the sum; empty when nothing was added.
  absl::Span<const float> Values(uint32_t block, Sum& sum);
  void Settle(uint32_t block);
  // Makes the present weights the previous ones, where these are kept, and empties all sums.
  void BeginClock();
  void Apply(Block& block, const OptimizerStep& step, absl::Span<const float> gradient,
             uint64_t lsn);

  std::shared_ptr<const JobTables> tables_;
  const std::shared_ptr<BufferPool> pool_;
  std::vector<Block> blocks_;
  // Sums by block; and the bytes of scarce memory that they keep as they came.
  std::vector<Sum> sums_;
  size_t kept_bytes_ = 0;
  // The last ApplySums: sums by block, empty once stepped; number of those left; the step.
  std::vector<Sum> ended_;
  uint32_t unsettled_ = 0;
  OptimizerStep step_;
  std::vector<absl::optional<float>> step_scales_;
  uint64_t step_lsn_ = 0;
  // Elements before each block of the partition, and in all.
  std::vector<uint64_t> offsets_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_DENSE_TABLE_H_
