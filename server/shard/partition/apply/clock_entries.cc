#include "server/shard/partition/apply/clock_entries.h"

#include <algorithm>

#include "proto/partition_state.pb.h"

namespace muster {

ClockEntries::ClockEntries(uint32_t slots, uint32_t needed, uint64_t start)
    : needed_(needed), decided_(start), entered_(slots) {}

void ClockEntries::Enter(uint32_t slot) {
  const uint64_t entered = decided_ + 1;
  entered_[slot] = entered;
  if (std::count(entered_.begin(), entered_.end(), entered) < needed_) return;
  left_out_.clear();
  for (uint32_t other = 0; other < entered_.size(); ++other) {
    if (entered_[other] != entered) left_out_.push_back(other);
  }
  ++decided_;
}

absl::Span<const uint32_t> ClockEntries::LeftOut(uint64_t clock) const {
  return clock + 1 == decided_ ? left_out_ : absl::Span<const uint32_t>();
}

void ClockEntries::Save(v1::PartitionState& state) const {
  state.set_decided_clocks(decided_);
  state.mutable_left_out()->Assign(left_out_.begin(), left_out_.end());
  for (uint32_t slot = 0; slot < entered_.size(); ++slot) {
    state.mutable_slots(static_cast<int>(slot))->set_entered_clocks(entered_[slot]);
  }
}

void ClockEntries::Restore(const v1::PartitionState& state) {
  decided_ = state.decided_clocks();
  left_out_.assign(state.left_out().begin(), state.left_out().end());
  for (uint32_t slot = 0; slot < entered_.size(); ++slot) {
    entered_[slot] = state.slots(static_cast<int>(slot)).entered_clocks();
  }
}

}  // namespace muster
