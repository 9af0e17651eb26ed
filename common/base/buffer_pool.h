#ifndef MUSTER_COMMON_BASE_BUFFER_POOL_H_
#define MUSTER_COMMON_BASE_BUFFER_POOL_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace muster {

// Arrays of f32 to be used again: writing to memory that the kernel has yet to map is several times
// slower than to memory that was touched before. An array returns to the pool when its last
// reference goes, on any thread.
//
// Sizes are rounded up by at most a quarter, so that replies of varying length share arrays. Arrays
// from 64 KiB on lie in huge pages (see HugeMemory) where the system has some. Eight or more arrays
// of less than 2 MiB share a slab, whose address range is freed with its last array. Thread-safe.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // Bytes of the smallest arrays in slabs, of which one takes a huge page at least. Smaller ones
  // take too few pages for their size to matter.
  static constexpr size_t kSmallestInSlab = size_t{64} << 10;

  // The pool keeps at most `keep_bytes` of unused arrays. It frees what comes back beyond that: an
  // array of a slab gives its pages back to the system, and its place is the first to be used
  // again.
  static std::shared_ptr<BufferPool> Create(size_t keep_bytes);

  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Returns an array of at least `floats` elements, 64-byte aligned, with undefined contents. The
  // array may outlive the pool.
  std::shared_ptr<float> Take(size_t floats);

  // Number of bytes of arrays that wait to be used again.
  size_t kept_bytes() const;

 private:
  explicit BufferPool(size_t keep_bytes) : keep_bytes_(keep_bytes) {}

  // One or several arrays of one size in one allocation.
  class Slab;
  struct Array {
    float* data = nullptr;
    // Null if the array is small and has memory of its own.
    std::shared_ptr<Slab> slab;
  };
  struct SizeClass {
    std::vector<Array> free;
    // Slabs with places of freed arrays; some slabs may be gone.
    std::vector<std::weak_ptr<Slab>> holed;
    // Slab of the next new array; null if a slab has yet to be made.
    std::shared_ptr<Slab> slab;
  };

  // Returns an array from a freed place; null if there is no such place.
  static Array TakeHole(SizeClass& size_class);
  Array TakeArray(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void Return(Array array, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  const size_t keep_bytes_;
  mutable absl::Mutex mutex_;
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Keyed by rounded bytes.
  absl::flat_hash_map<size_t, SizeClass> classes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_BUFFER_POOL_H_
