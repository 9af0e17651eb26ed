#include "common/tables/key_index.h"

#include <algorithm>
#include <utility>

namespace muster {

void KeyIndex::Allocate(size_t bucket_count) {
  // Zeroed: no bucket is of an epoch in use.
  memory_ = HugeMemory(bucket_count * sizeof(Bucket));
  bucket_count_ = bucket_count;
}

void KeyIndex::Grow() {
  const HugeMemory old_memory = std::move(memory_);
  const auto* const old = static_cast<const Bucket*>(old_memory.data());
  const size_t old_buckets = bucket_count_;
  Allocate(old_buckets * 2);
  for (size_t i = 0; i < old_buckets; ++i) {
    if (!Current(old[i])) continue;
    for (size_t k = 0; k < old[i].size(); ++k) {
      Put(FirstWithRoom(Home(old[i].keys[k])), old[i].keys[k], old[i].numbers[k]);
    }
  }
}

void KeyIndex::Erase(uint64_t key) {
  size_t hole = Home(key);
  while (buckets()[hole].Find(key) == kMissing) hole = Next(hole);
  --size_;
  for (size_t at = hole;;) {
    // The last in use takes the place, so that these come first.
    Bucket& bucket = buckets()[at];
    const bool was_full = bucket.full();
    const size_t place =
        std::find(bucket.keys.begin(), bucket.keys.end(), key) - bucket.keys.begin();
    const size_t last = bucket.size() - 1;
    bucket.keys[place] = bucket.keys[last];
    bucket.numbers[place] = bucket.numbers[last];
    --bucket.epoch_and_size;
    if (!was_full) return;
    // What passed by here because it was full would not be found any more: one such moves up.
    hole = at;
    bool moved = false;
    for (at = Next(at); !moved; at = Next(at)) {
      const Bucket& next = buckets()[at];
      if (!Current(next)) return;
      for (size_t i = 0; i < next.size() && !moved; ++i) {
        const size_t home = Home(next.keys[i]);
        if (((at - home) & (bucket_count_ - 1)) < ((at - hole) & (bucket_count_ - 1))) continue;
        key = next.keys[i];
        Put(buckets()[hole], key, next.numbers[i]);
        moved = true;
      }
      if (moved) break;
      if (!next.full()) return;
    }
  }
}

void KeyIndex::Clear() {
  size_ = 0;
  if (++epoch_ <= kLastEpoch) return;
  // Epochs begin again: buckets of old ones would look new.
  std::fill_n(buckets(), bucket_count_, Bucket{});
  epoch_ = 1;
}

}  // namespace muster
