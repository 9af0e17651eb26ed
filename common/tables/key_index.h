#ifndef MUSTER_COMMON_TABLES_KEY_INDEX_H_
#define MUSTER_COMMON_TABLES_KEY_INDEX_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/base/fingerprint.h"
#include "common/base/huge_memory.h"
#include "common/base/machine/prefetch.h"
#include "common/base/round_up.h"

namespace muster {

// Maps 64-bit keys to numbers: open addressing over buckets of five keys and their numbers, each
// one cache line. A key lies in its home bucket or, if that is full, in the first one after it with
// room, which is rare: most look-ups read one line, and compare all of it without a branch. Either
// the index numbers the keys itself, in order of their addition (FindOrAdd), and Clear takes
// constant time; or the caller numbers them (Add) and may remove one (Erase). Not thread-safe,
// except that look-ups may run at once.
class KeyIndex {
 public:
  static constexpr uint32_t kMissing = std::numeric_limits<uint32_t>::max();

  KeyIndex() { Allocate(kFirstBuckets); }

  static constexpr size_t kBucketBytes = 64;
  // Returns the most keys in so many buckets, of which a key more doubles the number: 5/8 of what
  // fits in, so that few buckets are full.
  static constexpr uint64_t MostKeys(uint64_t buckets) { return buckets * kInBucket * 5 / 8; }
  // Returns the number of buckets of so many keys.
  static constexpr uint64_t BucketsOf(uint64_t keys) {
    return std::bit_ceil(CeilDivide(keys * 8, uint64_t{kInBucket * 5}));
  }

  size_t size() const { return size_; }
  size_t bytes() const { return bucket_count_ * sizeof(Bucket); }

  // Starts to load the key's home bucket.
  void Prefetch(uint64_t key) const { muster::Prefetch(&buckets()[Home(key)]); }

  // Returns the key's number, or kMissing.
  uint32_t Find(uint64_t key) const {
    for (size_t at = Home(key);; at = Next(at)) {
      const Bucket& bucket = buckets()[at];
      if (!Current(bucket)) return kMissing;
      const uint32_t number = bucket.Find(key);
      if (number != kMissing || !bucket.full()) return number;
    }
  }

  // Returns the key's number. A new key is added and gets the number size(). REQUIRES: no use of
  // Add.
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

  // Adds a key with a number of the caller's. REQUIRES: the key is not there; the number is not
  // kMissing.
  void Add(uint64_t key, uint32_t number) { Fill(FirstWithRoom(Home(key)), key, number); }

  // Removes a key. REQUIRES: the key is there.
  void Erase(uint64_t key);

  // Removes all keys and keeps the memory.
  void Clear();

 private:
  friend class KeyIndexTest;

  static constexpr size_t kInBucket = 5;

  struct alignas(kBucketBytes) Bucket {
    // Entries in use come first.
    std::array<uint64_t, kInBucket> keys;
    std::array<uint32_t, kInBucket> numbers;
    // The epoch of the entries, and their number.
    uint32_t epoch_and_size;

    size_t size() const { return epoch_and_size % (1u << kSizeBits); }
    bool full() const { return size() == kInBucket; }
    uint32_t Find(uint64_t key) const {
      uint32_t found = kMissing;
      const size_t used = size();
#pragma GCC unroll 5
      for (size_t i = 0; i < kInBucket; ++i) {
        // All bits set, except at the key's own place.
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
  static_assert(sizeof(Bucket) == kBucketBytes);

  static constexpr size_t kFirstBuckets = 16;
  static constexpr uint32_t kSizeBits = 3;
  static constexpr uint32_t kLastEpoch = (uint32_t{1} << (32 - kSizeBits)) - 1;

  Bucket* buckets() const { return static_cast<Bucket*>(memory_.data()); }
  size_t Home(uint64_t key) const { return MixBits(key) & (bucket_count_ - 1); }
  size_t Next(size_t at) const { return (at + 1) & (bucket_count_ - 1); }
  // Returns the first bucket with room from `at` on.
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
    if (++size_ > MostKeys(bucket_count_)) Grow();
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
