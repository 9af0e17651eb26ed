#ifndef MUSTER_SERVER_COORDINATOR_HISTORY_SLOT_LOSSES_H_
#define MUSTER_SERVER_COORDINATOR_HISTORY_SLOT_LOSSES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/history/series.h"

namespace muster {

// Steps whose loss lacks the part of some slots: their tasks died, or the coordinator did, after
// the step and before its report was kept.
struct LossGap {
  uint64_t first_step = 0;
  uint64_t last_step = 0;
  // In order; empty: no slot's part is known.
  std::vector<uint32_t> slots;

  bool operator==(const LossGap&) const = default;
};

// The losses that slots reported of steps that not every slot has reported yet. A job's loss at a
// step is the mean over its slots, weighted by the divisor of each slot's loss: exact where slots
// report steps one by one. Where one reported several steps in one point, those steps become one
// point of the job, whose `min`, `max` and `last` are weighted means of the slots'. Slots divide
// steps in the groups of Series, so that their points end together again soon.
//
// A slot's steps only grow. The steps that a new task of the slot repeats, and those of a report
// that comes again or late, are not taken. A slot that runs far ahead is kept in fewer points.
// Not thread-safe.
class SlotLosses {
 public:
  // Keeps at most this many points a slot. REQUIRES: most_points >= 16.
  SlotLosses(uint32_t slots, size_t most_points);

  // Notes that a slot has closed `clock` clocks.
  void Reach(uint32_t slot, uint64_t clock);
  // Returns the last clock that a slot is known to have closed.
  uint64_t clock(uint32_t slot) const { return slots_[slot].clock; }
  // Returns the last step that all of `slots` have closed. REQUIRES: there are some.
  uint64_t ClosedByAll(absl::Span<const uint32_t> slots) const;
  // Adds a slot's losses. A weight that is not positive and finite leaves the last one.
  void Add(uint32_t slot, double weight, absl::Span<const SeriesPoint> points,
           const Boundaries& boundaries);

  // Removes and returns the job's losses up to the last step that all of `slots` have closed. Slots
  // that did not report a step have no part in its mean; those of `slots` that reported losses of
  // other steps are noted in `gaps`. Reports of slots that are not among `slots` are forgotten:
  // those steps are made again, or without these slots.
  std::vector<SeriesPoint> Take(absl::Span<const uint32_t> slots, std::vector<LossGap>& gaps);
  // Does the same for all steps that any slot has reported, without gaps: there will be no more
  // reports.
  std::vector<SeriesPoint> TakeAll();

  // Takes all slots back to `clock`.
  void GoBack(uint64_t clock);

 private:
  struct Slot {
    explicit Slot(size_t most_points) : losses(most_points) {}

    Series losses;
    double weight = 0;
    uint64_t clock = 0;
    // Number of points that TakeUpTo has used.
    size_t used = 0;
    // True if steps without a report of this slot are a gap.
    bool expected = false;
  };

  std::vector<SeriesPoint> TakeUpTo(uint64_t step, std::vector<LossGap>& gaps);

  std::vector<Slot> slots_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_HISTORY_SLOT_LOSSES_H_
