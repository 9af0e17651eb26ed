#ifndef MUSTER_SERVER_SHARD_PARTITION_APPLY_CLOCK_ENTRIES_H_
#define MUSTER_SERVER_SHARD_PARTITION_APPLY_CLOCK_ENTRIES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// Knows which slots take part in each clock of a job with backup workers (Chen and others,
// "Revisiting Distributed Synchronous SGD", 2016). Partition 0 decides for all. A slot that has its
// gradients of a clock enters the clock; once `needed` slots have, the clock is decided, and does
// not wait for the others. An entry is a logged mutation like a push, so the order of the log is
// the decision: a replay, a moved partition and a repeated call come to the same.
//
// For example, of 4 slots and 1 backup worker, 3 are needed. Slots 2, 0 and 3 enter clock 5: it is
// decided, and leaves out slot 1. Clock 6 takes entries now, of which slot 1's may be the first.
//
// Only slots that entered a clock push to it, and all of them say in their closes whom it leaves
// out; so every partition takes the same slots. A slot that was left out drops its gradients, and
// closes the clocks up to the one that it goes on at, for partitions that the closes of others have
// not reached yet.
//
// A slot repeats at most the last clock that it entered, so this is all that is known of each slot.
// Whom a clock leaves out is known of the last decided one alone. A slot that repeats an earlier
// one closes it without saying whom: those who were left out then say so themselves.
//
// Not thread-safe.
class ClockEntries {
 public:
  // The first `start` clocks are decided.
  ClockEntries(uint32_t slots, uint32_t needed, uint64_t start);

  // Returns the number of decided clocks: the clock with this number takes entries.
  uint64_t decided() const { return decided_; }
  // Returns whether the slot has entered the clock. REQUIRES: it has entered none after.
  bool HasEntered(uint32_t slot, uint64_t clock) const { return entered_[slot] == clock + 1; }
  // Enters the slot in clock decided(). REQUIRES: it has not entered that.
  void Enter(uint32_t slot);
  // Returns the slots that a decided clock leaves out, in order; of clocks before the last one
  // none.
  absl::Span<const uint32_t> LeftOut(uint64_t clock) const;

  // Adds all of this to a state, which has its slots.
  void Save(v1::PartitionState& state) const;
  void Restore(const v1::PartitionState& state);

 private:
  const uint32_t needed_;
  uint64_t decided_;
  // 1 + the last clock that each slot has entered.
  std::vector<uint64_t> entered_;
  // The slots that clock decided_ - 1 leaves out.
  std::vector<uint32_t> left_out_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_APPLY_CLOCK_ENTRIES_H_
