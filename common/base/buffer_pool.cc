#include "common/base/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

namespace muster {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

// Rounds up to 2^k * {4, 5, 6, 7} / 4, so at most a quarter is wasted and classes stay few.
size_t SizeClass(size_t bytes) {
  constexpr size_t kSmallest = 256;
  if (bytes <= kSmallest) return kSmallest;
  const size_t quarter = std::bit_floor(bytes - 1) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}

float* Allocate(size_t bytes) {
  if (bytes < kHugePage) {
    return static_cast<float*>(::operator new (bytes, std::align_val_t{kAlignment}));
  }
  void* array = ::operator new (bytes, std::align_val_t{kHugePage});
  // Only advice: without huge pages the memory works as well, with more page faults.
  madvise(array, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return static_cast<float*>(array);
}

void Free(float* array, size_t bytes) {
  ::operator delete (array, std::align_val_t{bytes < kHugePage ? kAlignment : kHugePage});
}

}  // namespace

std::shared_ptr<BufferPool> BufferPool::Create(size_t keep_bytes) {
  return std::shared_ptr<BufferPool>(new BufferPool(keep_bytes));
}

BufferPool::~BufferPool() {
  for (auto& [bytes, arrays] : free_) {
    for (float* array : arrays) Free(array, bytes);
  }
}

std::shared_ptr<float> BufferPool::Take(size_t floats) {
  const size_t bytes = SizeClass(floats * sizeof(float));
  float* array = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    std::vector<float*>& arrays = free_[bytes];
    if (!arrays.empty()) {
      array = arrays.back();
      arrays.pop_back();
      kept_bytes_ -= bytes;
    }
  }
  if (array == nullptr) array = Allocate(bytes);
  return std::shared_ptr<float>(array, [pool = weak_from_this(), bytes](float* returned) {
    if (const std::shared_ptr<BufferPool> alive = pool.lock()) {
      alive->Return(returned, bytes);
    } else {
      Free(returned, bytes);
    }
  });
}

void BufferPool::Return(float* array, size_t bytes) {
  {
    absl::MutexLock lock(&mutex_);
    if (kept_bytes_ + bytes <= keep_bytes_) {
      free_[bytes].push_back(array);
      kept_bytes_ += bytes;
      return;
    }
  }
  Free(array, bytes);
}

size_t BufferPool::kept_bytes() const {
  absl::MutexLock lock(&mutex_);
  return kept_bytes_;
}

}  // namespace muster
