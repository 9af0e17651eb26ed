#include "tests/benchmarks/coordinator/timers.h"

#include <utility>

#include "absl/time/clock.h"

namespace muster {

Timers::Timers() : thread_([this] { Run(); }) {}

Timers::~Timers() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void Timers::After(absl::Duration delay, std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  queue_.emplace(absl::Now() + delay, std::move(work));
}

void Timers::Run() {
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || (!queue_.empty() && queue_.begin()->first <= absl::Now());
      };
      while (!due()) {
        // Work that is added meanwhile may be due earlier.
        const absl::Duration most = absl::Milliseconds(5);
        mutex_.AwaitWithTimeout(absl::Condition(&stopping_), most);
      }
      if (stopping_) return;
      work = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
    }
    work();
  }
}

}  // namespace muster
