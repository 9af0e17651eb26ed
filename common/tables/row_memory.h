#ifndef MUSTER_COMMON_TABLES_ROW_MEMORY_H_
#define MUSTER_COMMON_TABLES_ROW_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/base/machine/huge_memory.h"
#include "common/base/machine/prefetch.h"
#include "common/tables/key_index.h"

namespace muster {

// Records by 64-bit key, each a head and `width` floats in contiguous memory. Records lie in
// slabs of 2 MiB and never move; the place of an erased one is used again. A record's number says
// where it lies.
//
// Not thread-safe (reading is, among readers).
class RowMemory {
 public:
  struct Row {
    uint64_t key;
    // Log sequence number of the last record of the log that changed it.
    uint64_t lsn;
    // Updates it has seen.
    uint32_t steps;
    // Clock of the last one.
    uint32_t last_use;
    // Of kReferenced, kChanged and kStored. New rows are kChanged.
    uint32_t flags;
    uint32_t reserved;

    float* values() { return reinterpret_cast<float*>(this + 1); }
    const float* values() const { return reinterpret_cast<const float*>(this + 1); }
  };

  // Used since the row was last considered for eviction.
  static constexpr uint32_t kReferenced = 1;
  // Differs from what is stored of it, if anything is.
  static constexpr uint32_t kChanged = 2;
  // Something is stored under its key.
  static constexpr uint32_t kStored = 4;

  static constexpr uint32_t kMissing = KeyIndex::kMissing;

  // Of rows with `width` floats.
  explicit RowMemory(uint32_t width);

  size_t rows() const { return index_.size(); }
  // Bytes that are taken, also by places that are free.
  size_t memory_bytes() const;
  // Memory that one more row takes at most, in the mean.
  size_t bytes_per_row() const { return stride_ + 32; }

  // Start to load what Find and At read.
  void PrefetchKey(uint64_t key) const { index_.Prefetch(key); }
  void PrefetchRow(uint32_t number) const {
    const char* at = reinterpret_cast<const char*>(&At(number));
    for (size_t offset = 0; offset < stride_; offset += 64) Prefetch(at + offset);
  }

  // Starts to load the first line of each row, kMissing ones left out. A processor looks up for
  // several at a time where their pages lie if they are asked for with nothing in between, and goes
  // no further before it knows; PrefetchRow of a row that was begun does not make it wait.
  void BeginRows(absl::Span<const uint32_t> numbers) const {
    for (const uint32_t number : numbers) {
      if (number != kMissing) Prefetch(&At(number));
    }
  }

  // The number of the key's row, or kMissing.
  uint32_t Find(uint64_t key) const { return index_.Find(key); }

  // REQUIRES: the number of a row.
  Row& At(uint32_t number) {
    return *reinterpret_cast<Row*>(static_cast<std::byte*>(slabs_[number >> shift_].data()) +
                                   (number & mask_) * stride_);
  }
  const Row& At(uint32_t number) const { return const_cast<RowMemory*>(this)->At(number); }

  // Adds a row, whose values are left to the caller. REQUIRES: the key has none.
  uint32_t Add(uint64_t key);
  // REQUIRES: the number of a row.
  void Erase(uint32_t number);

  // The number of the first row with a number of at least `from`, or kMissing: rows may be added
  // and erased on the way from one to the next.
  uint32_t Next(uint32_t from) const;
  // All rows have lower numbers, and so have those that will take the places of erased ones.
  uint32_t number_limit() const {
    return slabs_.empty() ? 0 : static_cast<uint32_t>((slabs_.size() - 1) << shift_) + last_used_;
  }

 private:
  // In place of its flags in a row that was erased.
  static constexpr uint32_t kFree = 1u << 31;

  const size_t stride_;
  // Rows of a slab, and how numbers are made: slab << shift_ | place.
  const size_t slab_bytes_;
  const uint32_t slab_rows_;
  const uint32_t shift_;
  const uint32_t mask_;
  KeyIndex index_;
  std::vector<HugeMemory> slabs_;
  // Places of the last slab that have been used.
  uint32_t last_used_ = 0;
  // Numbers of erased rows.
  std::vector<uint32_t> free_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_ROW_MEMORY_H_
