#ifndef MUSTER_SERVER_COORDINATOR_CALLS_SERIAL_EXECUTOR_H_
#define MUSTER_SERVER_COORDINATOR_CALLS_SERIAL_EXECUTOR_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace muster {

// Runs posted work one after another, in order. Post never blocks and may be called from any
// thread, also from running work. Thread-safe.
class SerialExecutor {
 public:
  virtual ~SerialExecutor() = default;
  virtual void Post(std::function<void()> work) = 0;
};

// A SerialExecutor with a thread of its own. The destructor runs what is still queued.
class ThreadExecutor final : public SerialExecutor {
 public:
  ThreadExecutor();
  ~ThreadExecutor() override;

  void Post(std::function<void()> work) override;

  // Posts work that overtakes what Post has queued: it waits for what runs, for earlier calls of
  // PostAhead, and for one piece of other work before each of these, so that neither kind can keep
  // the other out.
  void PostAhead(std::function<void()> work);

 private:
  using Queue = std::deque<std::function<void()>>;

  void Run();
  bool ReadyLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the queue that is next; it may be empty if both are.
  Queue& NextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  Queue queue_ ABSL_GUARDED_BY(mutex_);
  Queue ahead_ ABSL_GUARDED_BY(mutex_);
  // True if the last work that ran was of `ahead_`.
  bool was_ahead_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CALLS_SERIAL_EXECUTOR_H_
