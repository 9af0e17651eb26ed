#ifndef MUSTER_TESTS_BENCHMARKS_COORDINATOR_TIMERS_H_
#define MUSTER_TESTS_BENCHMARKS_COORDINATOR_TIMERS_H_

#include <functional>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace muster {

// Runs work later, all of it on one thread. Thread-safe.
class Timers {
 public:
  Timers();
  // Drops what has not begun.
  ~Timers();

  void After(absl::Duration delay, std::function<void()> work);

 private:
  void Run();

  absl::Mutex mutex_;
  std::multimap<absl::Time, std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COORDINATOR_TIMERS_H_
