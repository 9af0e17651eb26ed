#ifndef MUSTER_COMMON_TABLES_KEY_INDEX_H_
#define MUSTER_COMMON_TABLES_KEY_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/base/fingerprint.h"
#include "common/base/machine/huge_memory.h"
#include "common/base/machine/prefetch.h"

namespace muster {

// Numbers for 64-bit keys: open addressing over buckets of five keys and their numbers, each one
// line of the processor's cache. A key lies in the bucket where its search begins, or where that
// one is full in the first after it that is not, which happens to few: a look-up reads one line,
// and compares all of it without a branch. Either the index numbers the keys itself, in order of
// their coming (FindOrAdd), and all are forgotten at once in constant time, so that a scratch index
// costs nothing to empty; or the caller numbers them (Add) and may remove one (Erase). Not
// thread-safe (looking up is, among look-ups).
class KeyIndex {
 public:
  static constexpr uint32_t kMissing = std::numeric_limits<uint32_t>::max();

  KeyIndex() { Allocate(kFirstBuckets); }

  size_t size() const { return size_; }
  size_t bytes() const { return bucket_count_ * sizeof(Bucket); }

  // Starts to load the line in which the key's search begins.
  void Prefetch(uint64_t key) const { muster::Prefetch(&buckets()[Home(key)]); }

  // The key's number, or kMissing.
  uint32_t Find(uint64_t key) const {
    for (size_t at = Home(key);; at = Next(at)) {
      const Bucket& bucket = buckets()[at];
      if (!Current(bucket)) return kMissing;
      const uint32_t number = bucket.Find(key);
      if (number != kMissing || !bucket.full()) return number;
    }
  }

  // The key's number; size() before the call if the key is new, which is then added. REQUIRES: no
  // use of Add.
  uint32_t FindOrAdd(uint64_t key) {
    for (size_t at = Home(key);; at = Next(at)) {
      Bucket& bucket = buckets()[at];
      if (Current(bucket)) {
        const uint32_t number = bucket.Find(key);
        if (number != kMissing) return number;
        if (bucket.full()) continue;
      }
      const uint32_t number = static_cast<uint32_t>(size_);
      Fill(bucket, key, number);
      return number;
    }
  }

  // Adds a key under a number of the caller's, which is not kMissing. REQUIRES: the key is not
  // there.
  void Add(uint64_t key, uint32_t number) { Fill(FirstWithRoom(Home(key)), key, number); }

  // REQUIRES: the key is there.
  void Erase(uint64_t key);

  // Forgets all keys and keeps the memory.
  void Clear();

 private:
  friend class KeyIndexTest;

  static constexpr size_t kInBucket = 5;

  struct alignas(64) Bucket {
    // Those in use come first.
    std::array<uint64_t, kInBucket> keys;
    std::array<uint32_t, kInBucket> numbers;
    // The epoch of what it holds, and how many keys these are.
    uint32_t epoch_and_size;

    size_t size() const { return epoch_and_size % (1u << kSizeBits); }
    bool full() const { return size() == kInBucket; }
    uint32_t Find(uint64_t key) const {
      uint32_t found = kMissing;
      const size_t used = size();
#pragma GCC unroll 5
      for (size_t i = 0; i < kInBucket; ++i) {
        // All bits, but for the key's own place.
        found &= numbers[i] | (static_cast<uint32_t>((keys[i] == key) & (i < used)) - 1);
      }
      return found;
    }
    void Append(uint64_t key, uint32_t number) {
      const size_t place = size();
      keys[place] = key;
      numbers[place] = number;
      ++epoch_and_size;
    }
  };
  static_assert(sizeof(Bucket) == 64);

  static constexpr size_t kFirstBuckets = 16;
  static constexpr uint32_t kSizeBits = 3;
  static constexpr uint32_t kLastEpoch = (uint32_t{1} << (32 - kSizeBits)) - 1;

  Bucket* buckets() const { return static_cast<Bucket*>(memory_.data()); }
  size_t Home(uint64_t key) const { return MixBits(key) & (bucket_count_ - 1); }
  size_t Next(size_t at) const { return (at + 1) & (bucket_count_ - 1); }
  // From a bucket on.
  Bucket& FirstWithRoom(size_t at) {
    while (Current(buckets()[at]) && buckets()[at].full()) at = Next(at);
    return buckets()[at];
  }
  bool Current(const Bucket& bucket) const { return bucket.epoch_and_size >> kSizeBits == epoch_; }
  void Put(Bucket& bucket, uint64_t key, uint32_t number) {
    if (!Current(bucket)) bucket.epoch_and_size = epoch_ << kSizeBits;
    bucket.Append(key, number);
  }
  void Fill(Bucket& bucket, uint64_t key, uint32_t number) {
    Put(bucket, key, number);
    // At most 5/8 full, so that few buckets are.
    if (++size_ * 8 > bucket_count_ * kInBucket * 5) Grow();
  }
  void Allocate(size_t bucket_count);
  void Grow();

  HugeMemory memory_;
  // A power of two.
  size_t bucket_count_ = 0;
  size_t size_ = 0;
  uint32_t epoch_ = 1;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_KEY_INDEX_H_
