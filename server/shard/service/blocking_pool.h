#ifndef MUSTER_SERVER_SHARD_SERVICE_BLOCKING_POOL_H_
#define MUSTER_SERVER_SHARD_SERVICE_BLOCKING_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace muster {

// A few threads for calls that block, so that network threads never do. Thread-safe.
class BlockingPool {
 public:
  // `max_queued` is the number of tasks that may wait for a thread.
  BlockingPool(int threads, size_t max_queued);
  // Runs what is queued, then joins.
  ~BlockingPool();

  // Queues `task`. Returns false, and does not take `task`, if too many tasks wait already.
  bool Run(std::function<void()> task);

 private:
  void Work();

  const size_t max_queued_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_BLOCKING_POOL_H_
