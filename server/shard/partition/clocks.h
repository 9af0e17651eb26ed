#ifndef MUSTER_SERVER_SHARD_PARTITION_CLOCKS_H_
#define MUSTER_SERVER_SHARD_PARTITION_CLOCKS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace muster {

// Clocks of one partition: how many each slot has closed, and for how many the update has run. A
// slot may close clocks before the others have; the examples it reported wait here until the clock
// is complete.
//
//   slot 0  closed 7 ┐ slowest 5: clocks 0…4 are closed by all; completed 4 while clock 4's update
//   waits (for the slot 1  closed 5 ┘ scale of global-norm clipping), otherwise 5.
//
// Not thread-safe.
class Clocks {
 public:
  struct Slot {
    uint64_t closed = 0;
    // Of clocks completed…closed-1, oldest first; empty when examples are not kept.
    std::deque<uint64_t> pending_examples;
  };

  // All slots have closed exactly `start` clocks.
  Clocks(uint32_t slots, uint64_t start);
  // As stored.
  Clocks(std::vector<Slot> slots, uint64_t completed);

  // Bytes that the clocks of so many slots take before the first one is closed.
  static uint64_t PredictedBytes(uint32_t slots);

  uint32_t slots() const { return slots_.size(); }
  const Slot& slot(uint32_t slot) const { return slots_[slot]; }

  // Clocks closed by the slot that has closed fewest, and most.
  uint64_t slowest() const { return slowest_; }
  uint64_t fastest() const { return fastest_; }
  // Clocks whose update has run; at most slowest().
  uint64_t completed() const { return completed_; }

  // Under SSP and ASP nobody asks for a clock's examples: `examples` is empty then, so that a slot
  // far ahead costs nothing.
  void Close(uint32_t slot, std::optional<uint64_t> examples);

  // Notes that the update of clock completed() runs now; returns its examples over all slots.
  // REQUIRES: completed() < slowest().
  uint64_t Complete();

  // Examples of clock completed() over all slots, so far.
  uint64_t pending_examples() const;

 private:
  void Recount();

  std::vector<Slot> slots_;
  uint64_t completed_;
  uint64_t slowest_ = 0;
  uint64_t fastest_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_CLOCKS_H_
