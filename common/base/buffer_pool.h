#ifndef MUSTER_COMMON_BASE_BUFFER_POOL_H_
#define MUSTER_COMMON_BASE_BUFFER_POOL_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace muster {

// Arrays of f32 that come back to be used again: writing to memory the kernel has yet to map is
// several times slower than to memory that was touched before. An array returns to the pool when
// its last reference goes, on any thread.
//
// Sizes are rounded up by at most a quarter, so that replies of varying length share arrays. Arrays
// from 64 KiB on lie in huge pages (see HugeMemory), where the system has some; those of less than
// 2 MiB eight and more in a slab, whose address range goes when the last of them does. Thread-safe.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // Keeps at most `keep_bytes` of unused arrays; what comes back on top is freed: of a slab, the
  // system gets the array's pages, and its place is the first to be handed out again.
  static std::shared_ptr<BufferPool> Create(size_t keep_bytes);

  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // An array of at least `floats` elements, 64-byte aligned, of undefined contents. It may outlive
  // the pool.
  std::shared_ptr<float> Take(size_t floats);

  // Bytes of arrays that wait to be used again.
  size_t kept_bytes() const;

 private:
  explicit BufferPool(size_t keep_bytes) : keep_bytes_(keep_bytes) {}

  // One or several arrays of one size in one piece of memory.
  class Slab;
  struct Array {
    float* data = nullptr;
    // Null: the array is small, and memory of its own.
    std::shared_ptr<Slab> slab;
  };
  struct SizeClass {
    std::vector<Array> free;
    // Slabs with places of freed arrays; some may be gone.
    std::vector<std::weak_ptr<Slab>> holed;
    // Where the next new array comes from; null: a slab is yet to be made.
    std::shared_ptr<Slab> slab;
  };

  // An array of slabs with places to fill; null: there are none.
  static Array TakeHole(SizeClass& size_class);
  Array TakeArray(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void Return(Array array, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  const size_t keep_bytes_;
  mutable absl::Mutex mutex_;
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // By rounded bytes.
  absl::flat_hash_map<size_t, SizeClass> classes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_BUFFER_POOL_H_
