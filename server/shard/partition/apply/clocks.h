#ifndef MUSTER_SERVER_SHARD_PARTITION_APPLY_CLOCKS_H_
#define MUSTER_SERVER_SHARD_PARTITION_APPLY_CLOCKS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace muster {

// The clocks of one partition: how many each slot has closed, and for how many the update has run.
// A slot may close clocks before the others have; the examples it reported wait here until the
// clock is complete. For example, when slot 0 has closed 7 clocks and slot 1 has closed 5, slowest
// is 5: all have closed clocks 0…4. Completed is 5, too, or 4 as long as the update of clock 4
// waits for the scale of global-norm clipping.
//
// Not thread-safe.
class Clocks {
 public:
  struct Slot {
    uint64_t closed = 0;
    // Examples of the clocks completed…closed-1, oldest first; empty when they are not kept.
    std::deque<uint64_t> pending_examples;
  };

  // Begins where all slots have closed exactly `start` clocks.
  Clocks(uint32_t slots, uint64_t start);
  // Goes on from stored clocks.
  Clocks(std::vector<Slot> slots, uint64_t completed);

  // Returns the bytes that the clocks of so many slots take before the first one is closed.
  static uint64_t PredictedBytes(uint32_t slots);

  uint32_t slots() const { return slots_.size(); }
  const Slot& slot(uint32_t slot) const { return slots_[slot]; }

  // Return how many clocks the slot has closed that has closed fewest, and most.
  uint64_t slowest() const { return slowest_; }
  uint64_t fastest() const { return fastest_; }
  // Returns how many clocks have had their update; at most slowest().
  uint64_t completed() const { return completed_; }

  // Closes a slot's next clock. Under SSP and ASP nobody asks for a clock's examples: `examples` is
  // empty then, so that a slot far ahead costs nothing.
  void Close(uint32_t slot, std::optional<uint64_t> examples);

  // Notes that the update of clock completed() runs now; returns its examples over all slots.
  // REQUIRES: completed() < slowest().
  uint64_t Complete();

  // Returns the examples of clock completed() over all slots, so far.
  uint64_t pending_examples() const;

 private:
  void Recount();

  std::vector<Slot> slots_;
  uint64_t completed_;
  uint64_t slowest_ = 0;
  uint64_t fastest_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_APPLY_CLOCKS_H_
