#ifndef MUSTER_COMMON_TABLES_ROW_MEMORY_H_
#define MUSTER_COMMON_TABLES_ROW_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/base/huge_memory.h"
#include "common/base/machine/prefetch.h"
#include "common/tables/key_index.h"

namespace muster {

// Rows by 64-bit key, each a head and `width` floats in contiguous memory. Rows lie in slabs of
// 2 MiB and never move; the place of an erased row is used again. A row's number says where it
// lies.
//
// Not thread-safe (reading is, among readers).
class RowMemory {
 public:
  struct Row {
    uint64_t key;
    // Log sequence number of the last log record that changed the row.
    uint64_t lsn;
    // Number of updates.
    uint32_t steps;
    // Clock of the last update.
    uint32_t last_use;
    // Any of kReferenced, kChanged and kStored. New rows are kChanged.
    uint32_t flags;
    uint32_t reserved;

    float* values() { return reinterpret_cast<float*>(this + 1); }
    const float* values() const { return reinterpret_cast<const float*>(this + 1); }
  };

  // The row was used since it was last considered for eviction.
  static constexpr uint32_t kReferenced = 1;
  // The row differs from its stored copy, or has none.
  static constexpr uint32_t kChanged = 2;
  // The row has a stored copy.
  static constexpr uint32_t kStored = 4;

  static constexpr uint32_t kMissing = KeyIndex::kMissing;

  // The most bytes that a row takes of the index, on average.
  static constexpr size_t kIndexBytesPerRow = 32;

  // Makes an empty one for rows of `width` floats.
  explicit RowMemory(uint32_t width);

  size_t rows() const { return index_.size(); }
  // Bytes taken, free places included.
  size_t memory_bytes() const;
  // The most memory that one more row takes on average.
  size_t bytes_per_row() const { return stride_ + kIndexBytesPerRow; }

  // Start to load what Find and At read.
  void PrefetchKey(uint64_t key) const { index_.Prefetch(key); }
  void PrefetchRow(uint32_t number) const {
    const char* at = reinterpret_cast<const char*>(&At(number));
    for (size_t offset = 0; offset < stride_; offset += 64) Prefetch(at + offset);
  }

  // Starts to load the first cache line of each row, except kMissing. Asked for back to back, the
  // processor translates several of their pages at a time; a PrefetchRow after that does not wait
  // for the translation.
  void BeginRows(absl::Span<const uint32_t> numbers) const {
    for (const uint32_t number : numbers) {
      if (number != kMissing) Prefetch(&At(number));
    }
  }

  // Returns the number of the key's row, or kMissing.
  uint32_t Find(uint64_t key) const { return index_.Find(key); }

  // REQUIRES: the number of a row.
  Row& At(uint32_t number) {
    return *reinterpret_cast<Row*>(static_cast<std::byte*>(slabs_[number >> shift_].data()) +
                                   (number & mask_) * stride_);
  }
  const Row& At(uint32_t number) const { return const_cast<RowMemory*>(this)->At(number); }

  // Adds a row and leaves its values to the caller. REQUIRES: the key has no row.
  uint32_t Add(uint64_t key);
  // REQUIRES: the number of a row.
  void Erase(uint32_t number);

  // Returns the lowest row number from `from` on, or kMissing. Rows may be added and erased between
  // calls.
  uint32_t Next(uint32_t from) const;
  // Greater than the number of every row, and of every row that will take an erased row's place.
  uint32_t number_limit() const {
    return slabs_.empty() ? 0 : static_cast<uint32_t>((slabs_.size() - 1) << shift_) + last_used_;
  }

 private:
  // Replaces the flags of an erased row.
  static constexpr uint32_t kFree = 1u << 31;

  const size_t stride_;
  // A row's number is slab << shift_ | place in the slab.
  const size_t slab_bytes_;
  const uint32_t slab_rows_;
  const uint32_t shift_;
  const uint32_t mask_;
  KeyIndex index_;
  std::vector<HugeMemory> slabs_;
  // Places of the last slab that were ever used.
  uint32_t last_used_ = 0;
  // Numbers of erased rows.
  std::vector<uint32_t> free_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TABLES_ROW_MEMORY_H_
