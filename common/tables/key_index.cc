#include "common/tables/key_index.h"

#include <algorithm>
#include <utility>

namespace muster {

void KeyIndex::Allocate(size_t capacity) {
  // Zeroed: no entry is of an epoch in use.
  memory_ = HugeMemory(capacity * sizeof(Entry));
  entries_ = static_cast<Entry*>(memory_.data());
  capacity_ = capacity;
}

void KeyIndex::Grow() {
  const HugeMemory old_memory = std::move(memory_);
  const Entry* const old = entries_;
  const size_t old_capacity = capacity_;
  Allocate(old_capacity * 2);
  for (size_t i = 0; i < old_capacity; ++i) {
    if (old[i].epoch != epoch_) continue;
    size_t at = Home(old[i].key);
    while (entries_[at].epoch == epoch_) at = (at + 1) & (capacity_ - 1);
    entries_[at] = old[i];
  }
}

void KeyIndex::Erase(uint64_t key) {
  const size_t mask = capacity_ - 1;
  size_t hole = Home(key);
  while (entries_[hole].key != key || entries_[hole].epoch != epoch_) hole = (hole + 1) & mask;
  // Moves up what would not be found past the hole: entries whose search begins at it or before.
  for (size_t at = (hole + 1) & mask; entries_[at].epoch == epoch_; at = (at + 1) & mask) {
    const size_t home = Home(entries_[at].key);
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    entries_[hole] = entries_[at];
    hole = at;
  }
  entries_[hole].epoch = 0;
  --size_;
}

void KeyIndex::Clear() {
  size_ = 0;
  if (++epoch_ != 0) return;
  // The epoch wrapped: entries of old epochs would look new.
  std::fill_n(entries_, capacity_, Entry{});
  epoch_ = 1;
}

}  // namespace muster
