#include "common/base/buffer_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/huge_memory.h"
#include "common/base/round_up.h"

namespace muster {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = HugeMemory::kPageBytes;

constexpr size_t kArraysInSlab = 8;

// Rounds up to 2^k * {4, 5, 6, 7} / 4, so at most a quarter is wasted and classes stay few.
size_t RoundToClass(size_t bytes) {
  constexpr size_t kSmallest = 256;
  if (bytes <= kSmallest) return kSmallest;
  const size_t quarter = std::bit_floor(bytes - 1) / 4;
  return RoundUp(bytes, quarter);
}

// More than there are: four for each power of two.
constexpr size_t kMostClasses = 4 * 64;

// How many arrays of this size lie in a slab; 0: none, each is memory of its own.
size_t ArraysInSlab(size_t bytes) {
  if (bytes < BufferPool::kSmallestInSlab) return 0;
  return bytes < kHugePage ? kArraysInSlab : 1;
}

float* Allocate(size_t bytes) {
  return static_cast<float*>(::operator new (bytes, std::align_val_t{kAlignment}));
}

void Free(float* array) { ::operator delete (array, std::align_val_t{kAlignment}); }

// Gives the system the pages that lie wholly in the array, which then is of undefined contents.
void ReleasePages(float* array, size_t bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = RoundUp(reinterpret_cast<uintptr_t>(array), page);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(array) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace

class BufferPool::Slab {
 public:
  // For arrays of so many bytes.
  explicit Slab(size_t array_bytes)
      : array_bytes_(array_bytes),
        bytes_(OneArray() ? array_bytes : RoundUp(kArraysInSlab * array_bytes, kHugePage)),
        memory_(bytes_) {}

  // Whether it is for a single array.
  bool OneArray() const { return ArraysInSlab(array_bytes_) == 1; }

  // The pool's lock is held in all of these. The next array; null: it was the last.
  float* Next() {
    if (used_ + array_bytes_ > bytes_) return nullptr;
    float* const array = static_cast<float*>(memory_.data()) + used_ / sizeof(float);
    used_ += array_bytes_;
    return array;
  }

  // The place of an array that was freed. REQUIRES: has_holes().
  float* TakeHole() {
    float* const array = holes_.back();
    holes_.pop_back();
    return array;
  }
  bool has_holes() const { return !holes_.empty(); }
  // Whether it is the first now.
  bool AddHole(float* array) {
    holes_.push_back(array);
    return holes_.size() == 1;
  }

 private:
  const size_t array_bytes_;
  const size_t bytes_;
  // Not from the C library, which would take it out of memory that has small pages already.
  const HugeMemory memory_;
  size_t used_ = 0;
  std::vector<float*> holes_;
};

std::shared_ptr<BufferPool> BufferPool::Create(size_t keep_bytes) {
  std::shared_ptr<BufferPool> pool(new BufferPool(keep_bytes));
  absl::MutexLock lock(&pool->mutex_);
  // It never grows afterwards: a hash table whose growth finds no memory is of no more use.
  pool->classes_.reserve(kMostClasses);
  return pool;
}

BufferPool::~BufferPool() {
  for (auto& [bytes, size_class] : classes_) {
    for (Array& array : size_class.free) {
      if (array.slab == nullptr) Free(array.data);
    }
  }
}

BufferPool::Array BufferPool::TakeHole(SizeClass& size_class) {
  std::vector<std::weak_ptr<Slab>>& holed = size_class.holed;
  for (; !holed.empty(); holed.pop_back()) {
    std::shared_ptr<Slab> slab = holed.back().lock();
    if (slab == nullptr) continue;
    float* const data = slab->TakeHole();
    // A slab is in the list once, while it has holes.
    if (!slab->has_holes()) holed.pop_back();
    return {data, std::move(slab)};
  }
  return {};
}

BufferPool::Array BufferPool::TakeArray(size_t bytes) {
  {
    absl::MutexLock lock(&mutex_);
    SizeClass& size_class = classes_[bytes];
    if (!size_class.free.empty()) {
      Array array = std::move(size_class.free.back());
      size_class.free.pop_back();
      kept_bytes_ -= bytes;
      return array;
    }
    if (ArraysInSlab(bytes) > 1) {
      if (Array hole = TakeHole(size_class); hole.data != nullptr) return hole;
      // Its pages come as they are touched: making one under the lock takes no time.
      if (size_class.slab == nullptr) size_class.slab = std::make_shared<Slab>(bytes);
      Array array{size_class.slab->Next(), size_class.slab};
      if (array.data != nullptr) return array;
      size_class.slab = std::make_shared<Slab>(bytes);
      return {size_class.slab->Next(), size_class.slab};
    }
  }
  if (ArraysInSlab(bytes) == 0) return {Allocate(bytes), nullptr};
  auto slab = std::make_shared<Slab>(bytes);
  return {slab->Next(), std::move(slab)};
}

std::shared_ptr<float> BufferPool::Take(size_t floats) {
  const size_t bytes = RoundToClass(floats * sizeof(float));
  Array array = TakeArray(bytes);
  float* const data = array.data;
  return std::shared_ptr<float>(
      data, [pool = weak_from_this(), bytes, slab = std::move(array.slab)](float* returned) {
        if (const std::shared_ptr<BufferPool> alive = pool.lock()) {
          alive->Return({returned, slab}, bytes);
        } else if (slab == nullptr) {
          Free(returned);
        }
      });
}

void BufferPool::Return(Array array, size_t bytes) {
  // A list that cannot grow keeps nothing: what is given back must not fail.
  const auto keep = [&]() -> absl::Status {
    absl::MutexLock lock(&mutex_);
    if (kept_bytes_ + bytes > keep_bytes_) return absl::ResourceExhaustedError("enough is kept");
    classes_[bytes].free.push_back(array);
    kept_bytes_ += bytes;
    return absl::OkStatus();
  };
  if (CatchOutOfMemory("the list of free arrays", keep).ok()) return;
  if (array.slab == nullptr) {
    Free(array.data);
    return;
  }
  // It goes with its slab.
  if (array.slab->OneArray()) return;
  ReleasePages(array.data, bytes);
  const auto note = [&]() -> absl::Status {
    absl::MutexLock lock(&mutex_);
    std::vector<std::weak_ptr<Slab>>& holed = classes_[bytes].holed;
    if (array.slab->AddHole(array.data)) {
      std::erase_if(holed, [](const std::weak_ptr<Slab>& slab) { return slab.expired(); });
      holed.push_back(array.slab);
    }
    return absl::OkStatus();
  };
  // A place that is not noted goes with its slab.
  CatchOutOfMemory("the list of free places", note).IgnoreError();
}

size_t BufferPool::kept_bytes() const {
  absl::MutexLock lock(&mutex_);
  return kept_bytes_;
}

}  // namespace muster
