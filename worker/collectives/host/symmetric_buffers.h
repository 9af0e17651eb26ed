#ifndef MUSTER_WORKER_COLLECTIVES_HOST_SYMMETRIC_BUFFERS_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_SYMMETRIC_BUFFERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/host/collective_run.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// The buffers of a communicator that lie in memory which all ranks map. Thread-safe.
class SymmetricBuffers {
 public:
  explicit SymmetricBuffers(int rank) : rank_(rank) {}

  // Returns a buffer in `memory` or, if that is null, a plain one of `bytes` bytes. Every rank adds
  // buffers in the same order. The buffer must be destroyed before this object.
  std::unique_ptr<CollectiveBuffer> Add(std::unique_ptr<SymmetricMemory> memory, size_t bytes);

  // Returns the place of the `bytes` bytes at `data`; null memory if no buffer holds them all.
  SymmetricAddress Find(const void* data, size_t bytes) const;

 private:
  class Shared;
  struct Entry {
    uint64_t number = 0;
    SymmetricMemory* memory = nullptr;
  };
  void Remove(const SymmetricMemory* memory);

  const int rank_;
  // Size of entries_, readable without the lock.
  std::atomic<size_t> size_{0};
  mutable absl::Mutex mutex_;
  uint64_t added_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_SYMMETRIC_BUFFERS_H_
