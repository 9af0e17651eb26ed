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

// Which buffers of a communicator lie in memory that all ranks map. Thread-safe.
class SymmetricBuffers {
 public:
  explicit SymmetricBuffers(int rank) : rank_(rank) {}

  // A buffer in `memory`; null: a plain one of `bytes` bytes. Every rank adds them in the same
  // order. The buffer must go before this object.
  std::unique_ptr<CollectiveBuffer> Add(std::unique_ptr<SymmetricMemory> memory, size_t bytes);

  // Where the `bytes` at `data` lie, if all of them are in one of the buffers.
  SymmetricAddress Find(const void* data, size_t bytes) const;

 private:
  class Shared;
  struct Entry {
    uint64_t number = 0;
    SymmetricMemory* memory = nullptr;
  };
  void Remove(const SymmetricMemory* memory);

  const int rank_;
  // As many as entries_, to be looked at without the lock.
  std::atomic<size_t> size_{0};
  mutable absl::Mutex mutex_;
  uint64_t added_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_SYMMETRIC_BUFFERS_H_
