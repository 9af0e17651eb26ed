#include "server/shard/partition/apply/clocks.h"

#include <algorithm>
#include <utility>

namespace muster {

Clocks::Clocks(uint32_t slots, uint64_t start)
    : Clocks(std::vector<Slot>(slots, Slot{.closed = start, .pending_examples = {}}), start) {}

Clocks::Clocks(std::vector<Slot> slots, uint64_t completed)
    : slots_(std::move(slots)), completed_(completed) {
  Recount();
}

uint64_t Clocks::PredictedBytes(uint32_t slots) {
  // An empty deque has a block of 512 bytes and a list of eight.
  constexpr uint64_t kEmptyDeque = 640;
  return uint64_t{slots} * (sizeof(Slot) + kEmptyDeque);
}

void Clocks::Recount() {
  slowest_ = fastest_ = slots_.front().closed;
  for (const Slot& slot : slots_) {
    slowest_ = std::min(slowest_, slot.closed);
    fastest_ = std::max(fastest_, slot.closed);
  }
}

void Clocks::Close(uint32_t slot, std::optional<uint64_t> examples) {
  ++slots_[slot].closed;
  if (examples.has_value()) slots_[slot].pending_examples.push_back(*examples);
  Recount();
}

uint64_t Clocks::pending_examples() const {
  uint64_t examples = 0;
  for (const Slot& slot : slots_) {
    if (!slot.pending_examples.empty()) examples += slot.pending_examples.front();
  }
  return examples;
}

uint64_t Clocks::Complete() {
  const uint64_t examples = pending_examples();
  for (Slot& slot : slots_) {
    if (!slot.pending_examples.empty()) slot.pending_examples.pop_front();
  }
  ++completed_;
  return examples;
}

}  // namespace muster
