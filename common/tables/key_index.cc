#include "common/tables/key_index.h"

#include <algorithm>
#include <utility>

namespace muster {

void KeyIndex::Grow() {
  std::vector<Entry> old(entries_.size() * 2);
  old.swap(entries_);
  for (const Entry& entry : old) {
    if (entry.epoch != epoch_) continue;
    size_t at = Home(entry.key);
    while (entries_[at].epoch == epoch_) at = (at + 1) & (entries_.size() - 1);
    entries_[at] = entry;
  }
}

void KeyIndex::Clear() {
  size_ = 0;
  if (++epoch_ != 0) return;
  // The epoch wrapped: entries of old epochs would look new.
  std::fill(entries_.begin(), entries_.end(), Entry{});
  epoch_ = 1;
}

}  // namespace muster
