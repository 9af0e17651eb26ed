#ifndef MUSTER_SERVER_SHARD_PARTITION_ADMISSION_LEDGER_H_
#define MUSTER_SERVER_SHARD_PARTITION_ADMISSION_LEDGER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mesh/mesh.h"
#include "common/partition/served_layout.h"

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// A record of the contributions that one partition has admitted, so that each counts exactly once.
// The key of a contribution is (slot, clock, table, block and micro-batch, or chunk). Incarnations
// fence and are never part of the key, so a respawned task that repeats its clock finds what its
// predecessor had sent. A slot pushes the micro-batches of a block in order, so the ledger only
// counts them. Pushes name the slot's open clock, the first that the slot has not closed. Pushes to
// older clocks are repeats; pushes to newer ones are out of order.
//
// The ledger holds for each slot the incarnation, the count of closed clocks, and the blocks and
// chunks of the open clock alone, so its size is bounded. It runs ahead of the tables: an entry is
// made when the request is admitted, before the mutation is applied.
//
// Errors say what failed; the caller adds which partition. Not thread-safe.
class Ledger {
 public:
  // The slots, blocks, tables and pushes that the ledger covers.
  struct Shape {
    // Slots are its ranks.
    Mesh mesh;
    uint32_t dense_blocks = 0;
    uint32_t sparse_tables = 0;
    // Pushes of each dense block that each slot makes in a clock.
    uint32_t micro_batches = 1;
    // The ranks of the model whose slots push each dense block; empty if the slots of one rank push
    // all.
    std::vector<BlockPushers> pushers;
  };

  // Begins with all slots having closed `start` clocks.
  Ledger(const Shape& shape, uint64_t start);

  // Returns the bytes that such a ledger takes before the first push.
  static uint64_t PredictedBytes(const Shape& shape);

  uint64_t closed(uint32_t slot) const { return slots_[slot].closed; }
  // Returns how many clocks the slowest slot has closed.
  uint64_t slowest() const { return slowest_; }
  uint64_t incarnation(uint32_t slot) const { return slots_[slot].incarnation; }

  // Checks that no later incarnation of the slot has been seen. ABORTED: one has.
  absl::Status CheckIncarnation(uint32_t slot, uint64_t incarnation) const;
  // Notes the slot's incarnation. Errors as CheckIncarnation.
  absl::Status Enter(uint32_t slot, uint64_t incarnation);

  // Returns whether the slot has closed the clock, so that the contribution is in.
  // FAILED_PRECONDITION: the clock is past the open one.
  absl::StatusOr<bool> IsClosed(uint32_t slot, uint64_t clock) const;

  // Returns whether the slot is one of those that push the block.
  bool Pushes(uint32_t slot, uint32_t block) const {
    return shape_.pushers.empty() || shape_.pushers[block].Has(shape_.mesh, static_cast<int>(slot));
  }

  // Return and note which contributions to the slot's open clock are in. Of a block, the first
  // MicroBatchesIn() micro-batches are.
  uint32_t MicroBatchesIn(uint32_t slot, uint32_t block) const {
    return slots_[slot].micro_batches_in[block];
  }
  // REQUIRES: not all of the block's micro-batches are in.
  void AddBlock(uint32_t slot, uint32_t block);
  bool HasChunk(uint32_t slot, uint32_t sparse_table, uint32_t chunk) const {
    return slots_[slot].chunks[sparse_table].contains(chunk);
  }
  void AddChunk(uint32_t slot, uint32_t sparse_table, uint32_t chunk) {
    slots_[slot].chunks[sparse_table].insert(chunk);
  }

  // What the slot's pushes tell of its open clock, as its close does.
  struct Told {
    uint64_t examples = 0;
    double rate_factor = 1;
  };
  // Notes what a push tells that brings these blocks, or rows if there are none. The examples of
  // one block's micro-batches add up; pushes of other blocks and of rows repeat the sum.
  void NoteTold(uint32_t slot, absl::Span<const uint32_t> blocks, const Told& told);
  // Returns what pushes to the slot's open clock have told; nothing before the first one.
  std::optional<Told> told(uint32_t slot) const { return slots_[slot].told; }
  // Returns how many chunks of a table are in of the slot's open clock.
  uint32_t chunks_in(uint32_t slot, uint32_t sparse_table) const {
    return static_cast<uint32_t>(slots_[slot].chunks[sparse_table].size());
  }

  // Notes that the slot's gradients of its open clock overflowed, so that zeros stand for them.
  void Withdraw(uint32_t slot) { slots_[slot].withdrawn = true; }
  // Returns whether the slot's gradients of the clock overflowed. The open clock and the last
  // closed one are known; of others the answer is false.
  bool HasWithdrawn(uint32_t slot, uint64_t clock) const;

  // Checks that the slot may close its open clock, of which it has sent these numbers of chunks
  // (one per sparse table, or none at all). FAILED_PRECONDITION: not all chunks, or not all
  // micro-batches of all blocks that it pushes, are in; or blocks are in although `no_dense`.
  // INVALID_ARGUMENT: wrong number of tables, or more chunks are in than the slot says it sent.
  absl::Status CheckClose(uint32_t slot, absl::Span<const uint32_t> chunks, bool no_dense) const;
  // Checks that the slot's open clock need not wait for these slots. INVALID_ARGUMENT: there is no
  // such slot. FAILED_PRECONDITION: one of them has contributed to that clock.
  absl::Status CheckLeftOut(uint32_t slot, absl::Span<const uint32_t> left_out) const;
  // Closes the slot's open clock, which does not wait for the slots in `left_out`: theirs is closed
  // as well, or will be once they have closed those before. Returns the slots whose open clocks
  // were closed, in order, the caller's first; a slot occurs once for each of its clocks.
  std::vector<uint32_t> Close(uint32_t slot, absl::Span<const uint32_t> left_out = {});

  // Returns whether any slot has contributed to a clock from `clock` on.
  bool HasContributionsFrom(uint64_t clock) const;

  // Adds the slots to a state, with their incarnations, closed clocks, blocks and chunks.
  void Save(v1::PartitionState& state) const;
  // Takes the slots over from a state. DATA_LOSS: the numbers of slots or tables, or a block's
  // index or micro-batches, do not fit this ledger.
  absl::Status Restore(const v1::PartitionState& state);

 private:
  struct Slot {
    uint64_t incarnation = 0;
    uint64_t closed = 0;
    // The number of pushes of blocks that are in, by block and in all.
    std::vector<uint32_t> micro_batches_in;
    uint64_t pushes_in = 0;
    // Chunks by sparse table. The standard library's sets survive running out of memory.
    std::vector<std::set<uint32_t>> chunks;
    // What pushes of the open clock tell, and the block whose pushes tell it; absent: those of rows
    // do. Not part of the state: none is stored while pushes wait for their clock to end.
    std::optional<Told> told;
    std::optional<uint32_t> told_by;
    // True if gradients of the open clock, and of the last closed one, are withdrawn.
    bool withdrawn = false;
    bool closed_withdrawn = false;
    // Clocks from `closed` on that do not wait for the slot. Before the first of them is one that
    // waits for it.
    std::set<uint64_t> left_out_of;

    bool HasContributed() const;
  };

  void Recount();
  // Closes the slot's open clock, and those after it that do not wait for the slot.
  void CloseOpen(uint32_t slot, std::vector<uint32_t>& closed);

  // Returns the number of pushes of blocks in a clock of the slot.
  uint64_t PushesOf(uint32_t slot) const {
    const auto at = [&](Axes axes) { return shape_.mesh.Position(static_cast<int>(slot), axes); };
    return pushes_[at(kPartAxes)] + expert_pushes_[at(kServedAxes)];
  }

  const Shape shape_;
  // The number of pushes in a clock that each slot makes of blocks that are not of experts, by the
  // slot's position along kPartAxes, and of experts, by that along kServedAxes.
  std::vector<uint64_t> pushes_;
  std::vector<uint64_t> expert_pushes_;
  std::vector<Slot> slots_;
  uint64_t slowest_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_ADMISSION_LEDGER_H_
