#ifndef MUSTER_SERVER_SHARD_RESOURCES_THREAD_POOL_H_
#define MUSTER_SERVER_SHARD_RESOURCES_THREAD_POOL_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/shard/resources/executor.h"

namespace muster {

// A fixed number of threads that run tasks in the order they were added. The destructor runs what
// is queued, then joins. Thread-safe.
class ThreadPool final : public Executor {
 public:
  // REQUIRES: threads > 0.
  explicit ThreadPool(int threads);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void Add(std::function<void()> task) override;

 private:
  void Work();
  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty() || stopping_; }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Const after construction.
  std::vector<std::thread> threads_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_RESOURCES_THREAD_POOL_H_
