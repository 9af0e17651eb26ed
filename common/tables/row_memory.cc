#include "common/tables/row_memory.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "common/base/round_up.h"

namespace muster {
namespace {

static_assert(sizeof(RowMemory::Row) == 32);

// A slab holds at least that many rows.
constexpr size_t kLeastRows = 8;

size_t Stride(uint32_t width) {
  const size_t bytes = sizeof(RowMemory::Row) + size_t{width} * sizeof(float);
  return (bytes + 7) / 8 * 8;
}

size_t SlabBytes(size_t stride) {
  const size_t page = HugeMemory::kPageBytes;
  return std::max(page, RoundUp(kLeastRows * stride, page));
}

// Bits that numbers below `count` need.
uint32_t Bits(uint32_t count) {
  uint32_t bits = 0;
  while ((uint64_t{1} << bits) < count) ++bits;
  return bits;
}

}  // namespace

RowMemory::RowMemory(uint32_t width)
    : stride_(Stride(width)),
      slab_bytes_(SlabBytes(stride_)),
      slab_rows_(static_cast<uint32_t>(slab_bytes_ / stride_)),
      shift_(Bits(slab_rows_)),
      mask_((uint32_t{1} << shift_) - 1) {}

size_t RowMemory::memory_bytes() const {
  // Of the last slab only what has been touched: most tables of most partitions are small.
  const size_t slabs =
      slabs_.empty() ? 0 : (slabs_.size() - 1) * slab_bytes_ + size_t{last_used_} * stride_;
  return slabs + index_.bytes() + free_.capacity() * sizeof(uint32_t);
}

uint32_t RowMemory::Add(uint64_t key) {
  uint32_t number;
  if (!free_.empty()) {
    number = free_.back();
    free_.pop_back();
  } else {
    if (slabs_.empty() || last_used_ == slab_rows_) {
      // Hundreds of GiB in one partition.
      if ((uint64_t{slabs_.size()} + 1) << shift_ > std::numeric_limits<uint32_t>::max()) {
        std::abort();
      }
      slabs_.emplace_back(slab_bytes_,
                          slabs_.empty() ? HugeMemory::Pages::kSmall : HugeMemory::Pages::kHuge);
      last_used_ = 0;
    }
    number = static_cast<uint32_t>((slabs_.size() - 1) << shift_) | last_used_++;
  }
  index_.Add(key, number);
  At(number) = {.key = key, .lsn = 0, .steps = 0, .last_use = 0, .flags = kChanged, .reserved = 0};
  return number;
}

void RowMemory::Erase(uint32_t number) {
  Row& row = At(number);
  index_.Erase(row.key);
  row.flags = kFree;
  free_.push_back(number);
}

uint32_t RowMemory::Next(uint32_t from) const {
  for (size_t slab = from >> shift_; slab < slabs_.size(); ++slab) {
    const uint32_t end = slab + 1 == slabs_.size() ? last_used_ : slab_rows_;
    for (uint32_t place = slab == from >> shift_ ? from & mask_ : 0; place < end; ++place) {
      const uint32_t number = static_cast<uint32_t>(slab << shift_) | place;
      if (At(number).flags != kFree) return number;
    }
  }
  return kMissing;
}

}  // namespace muster
