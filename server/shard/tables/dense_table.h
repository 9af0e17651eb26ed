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
// The step that ends a clock is made block by block when somebody looks at one, or in Settle: so
// those who wait for the first blocks get them before the others are through. Nobody sees a block
// before its step.
//
// One thread at a time calls the methods; what Pull returns may be read on any thread.
class DenseTable {
 public:
  struct Block {
    // Where it lies and what it holds.
    const DenseLayout::Block* layout;
    VersionedBuffer weights;
    // The weights before the last clock's update; null when they are not kept.
    std::shared_ptr<const float> previous;
    // State arrays one after another, each as long as the weights.
    VersionedBuffer state;
    // Updates it has seen.
    uint64_t steps = 0;
    // Log sequence number of the last record that changed it.
    uint64_t lsn = 0;

    // To change, and to look at.
    absl::Span<float> state_values() { return state.Write(); }
    absl::Span<const float> state_values() const { return state.Peek(); }
  };

  // Initial values. Arrays come from `pool`.
  DenseTable(std::shared_ptr<const JobTables> tables, uint32_t partition,
             std::shared_ptr<BufferPool> pool);

  uint32_t size() const { return blocks_.size(); }
  // Bytes of the weights of blocks [first, first + count). REQUIRES: they exist.
  uint64_t PayloadBytes(uint32_t first, uint32_t count) const {
    return (offsets_[first + count] - offsets_[first]) * sizeof(float);
  }
  // Bytes of weights and state; memory_bytes() includes the sums.
  uint64_t value_bytes() const;
  uint64_t memory_bytes() const;

  // Which weights a pull is to see.
  enum class Version {
    kCurrent,
    // Those before the last ApplySums, kept for jobs with SummationOrder::kSlot. REQUIRES: it has
    // run.
    kPrevious,
  };

  // The weights of blocks [first, first + count), which never change once returned. REQUIRES: they
  // exist.
  Payload Pull(uint32_t first, uint32_t count, Version version);

  // Whether keeping a gradient takes memory that the next ones need, or none that is missed.
  enum class Keeping { kScarce, kFree };
  // Adds a slot's gradient to a block's sum; at most once per slot and clock. REQUIRES: as long as
  // the weights.
  void Accumulate(uint32_t block, uint32_t slot, Payload gradient,
                  Keeping keeping = Keeping::kScarce);
  // Adds what waits for its turn: the clock is closed.
  void FinishSums();
  // Of a block's sum; 0 when nothing was added. After FinishSums.
  double SquaredNormOfSum(uint32_t block);
  // Ends a clock: one optimizer step on every block that has a sum (and does not include `lsn`; 0
  // stands for no log), and empty sums for all. `gradient_scales` are by block, in place of the
  // step's; a block that has none stays as it is. After FinishSums.
  void ApplySums(const OptimizerStep& step, std::vector<absl::optional<float>> gradient_scales,
                 uint64_t lsn);
  // Makes the steps of the last ApplySums that nobody has asked for, which hold sums until then.
  void Settle();
  bool settled() const { return unsettled_ == 0; }

  // One optimizer step on one block, counted by the block, unless it includes `lsn`. REQUIRES: as
  // for Accumulate.
  void Update(uint32_t block, const Payload& gradient, const OptimizerStep& step, uint64_t lsn);

  Block& block(uint32_t block) {
    Settle(block);
    return blocks_[block];
  }

 private:
  struct Contribution {
    Payload gradient;
    // Of those in kept_bytes_.
    size_t scarce_bytes = 0;
    Keeping keeping = Keeping::kFree;
  };
  struct Sum {
    // Contributions in the order of their addition, each in one span and as it came: the first, as
    // with one worker there is no other, and with several the next is usually close behind; more
    // where they are free to keep, since a sum that is made right before the step stays in the
    // caches. None once there are values.
    std::vector<Contribution> kept;
    // Null until something is added that is not kept.
    std::shared_ptr<float> values;
    // In slot order: the first slot that has not been added, and those after it that came early.
    uint32_t next_slot = 0;
    std::map<uint32_t, Contribution> early;

    bool empty() const { return kept.empty() && values == nullptr; }
  };

  void Add(uint32_t block, const Payload& gradient, Keeping keeping);
  // Makes values of what is kept.
  void AddKept(uint32_t block, Sum& sum);
  // Bytes of server memory and of scarce one.
  uint64_t MemoryOf(uint32_t block, const Sum& sum) const;
  // Adds those that came early and whose turn it is, or all.
  enum class Turn { kOwn, kAny };
  void AddEarly(uint32_t block, Turn turn);
  // Whether a contribution that is scarce can be kept as it came.
  bool HasRoomFor(const Payload& gradient) const;
  // Added up; empty when nothing was added.
  absl::Span<const float> Values(uint32_t block, Sum& sum);
  void Settle(uint32_t block);
  // The present weights become the previous ones, where these are kept, and all sums empty.
  void BeginClock();
  void Apply(Block& block, const OptimizerStep& step, absl::Span<const float> gradient,
             uint64_t lsn);

  const std::shared_ptr<const JobTables> tables_;
  const std::shared_ptr<BufferPool> pool_;
  std::vector<Block> blocks_;
  // By block; and the bytes of what they keep as it came, in memory of the senders'.
  std::vector<Sum> sums_;
  size_t kept_bytes_ = 0;
  // Of the last ApplySums: sums by block, empty where the step was made; how many are left; and the
  // step itself.
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
