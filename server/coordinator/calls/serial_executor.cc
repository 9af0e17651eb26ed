#include "server/coordinator/calls/serial_executor.h"

#include <utility>

namespace muster {

ThreadExecutor::ThreadExecutor() : thread_([this] { Run(); }) {}

ThreadExecutor::~ThreadExecutor() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  thread_.join();
}

void ThreadExecutor::Post(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(work));
}

void ThreadExecutor::PostAhead(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  ahead_.push_back(std::move(work));
}

bool ThreadExecutor::ReadyLocked() const { return ending_ || !queue_.empty() || !ahead_.empty(); }

ThreadExecutor::Queue& ThreadExecutor::NextLocked() {
  was_ahead_ = !ahead_.empty() && (queue_.empty() || !was_ahead_);
  return was_ahead_ ? ahead_ : queue_;
}

void ThreadExecutor::Run() {
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &ThreadExecutor::ReadyLocked));
      Queue& next = NextLocked();
      if (next.empty()) return;
      work = std::move(next.front());
      next.pop_front();
    }
    work();
  }
}

}  // namespace muster
