#ifndef MUSTER_SERVER_SHARD_TABLES_VERSIONED_BUFFER_H_
#define MUSTER_SERVER_SHARD_TABLES_VERSIONED_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <memory>

#include "absl/types/span.h"
#include "common/base/buffer_pool.h"

namespace muster {

// An f32 array of which readers hold immutable versions. A writer that finds the current version
// still read goes on with a copy. So replies are never torn, and nothing is copied in the usual
// case: readers have left before the next update.
//
// One thread at a time calls the methods; versions may be read and released on any thread.
class VersionedBuffer {
 public:
  // Leaves the contents undefined until they are written.
  VersionedBuffer(std::shared_ptr<BufferPool> pool, size_t floats);

  size_t size() const { return size_; }

  // Returns the current contents, for the thread that writes; not to be kept.
  absl::Span<const float> Peek() const { return {current_->data.get(), size_}; }

  // Returns the current contents, which never change as long as they are held.
  std::shared_ptr<const float> Read() const;

  // Returns the contents to change in place; valid until the next call of any method.
  absl::Span<float> Write();

 private:
  struct Version {
    std::shared_ptr<float> data;
    std::atomic<int> readers{0};
  };

  std::shared_ptr<BufferPool> pool_;
  size_t size_;
  std::shared_ptr<Version> current_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_VERSIONED_BUFFER_H_
