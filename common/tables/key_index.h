#ifndef MUSTER_COMMON_TABLES_KEY_INDEX_H_
#define MUSTER_COMMON_TABLES_KEY_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/base/fingerprint.h"
#include "common/tables/huge_memory.h"

namespace muster {

// Numbers for 64-bit keys: open addressing with linear probing over entries of 16 bytes, four to a
// cache line. Either the index numbers the keys itself, in order of their coming (FindOrAdd), and
// all are forgotten at once in constant time, so that a scratch index costs nothing to empty; or
// the caller numbers them (Add) and may remove one (Erase). Not thread-safe (looking up is, among
// look-ups).
class KeyIndex {
 public:
  static constexpr uint32_t kMissing = std::numeric_limits<uint32_t>::max();

  KeyIndex() { Allocate(kFirstCapacity); }

  size_t size() const { return size_; }
  size_t bytes() const { return capacity_ * sizeof(Entry); }

  // Starts to load the line in which the key's search begins.
  void Prefetch(uint64_t key) const { __builtin_prefetch(&entries_[Home(key)]); }

  // The key's number, or kMissing.
  uint32_t Find(uint64_t key) const {
    for (size_t at = Home(key);; at = (at + 1) & (capacity_ - 1)) {
      const Entry& entry = entries_[at];
      if (entry.epoch != epoch_) return kMissing;
      if (entry.key == key) return entry.number;
    }
  }

  // The key's number; size() before the call if the key is new, which is then added. REQUIRES: no
  // use of Add.
  uint32_t FindOrAdd(uint64_t key) {
    size_t at = Home(key);
    for (;; at = (at + 1) & (capacity_ - 1)) {
      const Entry& entry = entries_[at];
      if (entry.epoch != epoch_) break;
      if (entry.key == key) return entry.number;
    }
    const uint32_t number = size_;
    Fill(at, key, number);
    return number;
  }

  // Adds a key under a number of the caller's. REQUIRES: the key is not there.
  void Add(uint64_t key, uint32_t number) {
    size_t at = Home(key);
    while (entries_[at].epoch == epoch_) at = (at + 1) & (capacity_ - 1);
    Fill(at, key, number);
  }

  // REQUIRES: the key is there.
  void Erase(uint64_t key);

  // Forgets all keys and keeps the memory.
  void Clear();

 private:
  struct Entry {
    uint64_t key = 0;
    uint32_t number = 0;
    // In use if it equals the index's.
    uint32_t epoch = 0;
  };

  static constexpr size_t kFirstCapacity = 64;

  size_t Home(uint64_t key) const { return MixBits(key) & (capacity_ - 1); }
  void Fill(size_t at, uint64_t key, uint32_t number) {
    entries_[at] = {key, number, epoch_};
    // At most 5/8 full, so that a search ends after two probes on average.
    if (++size_ * 8 > capacity_ * 5) Grow();
  }
  void Allocate(size_t capacity);
  void Grow();

  HugeMemory memory_;
  // In `memory_`.
  Entry* entries_ = nullptr;
  // A power of two.
  size_t capacity_ = 0;
  size_t size_ = 0;
  uint32_t epoch_ = 1;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_KEY_INDEX_H_
