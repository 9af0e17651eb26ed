#ifndef MUSTER_SERVER_COORDINATOR_CALLS_MANUAL_EXECUTOR_FOR_TESTING_H_
#define MUSTER_SERVER_COORDINATOR_CALLS_MANUAL_EXECUTOR_FOR_TESTING_H_

#include <deque>
#include <functional>
#include <utility>

#include "server/coordinator/calls/serial_executor.h"

namespace muster {

// A SerialExecutor that runs its work when told to, on the calling thread.
class ManualExecutor final : public SerialExecutor {
 public:
  void Post(std::function<void()> work) override { queue_.push_back(std::move(work)); }

  // Runs work until the queue is empty, including work posted meanwhile.
  void RunAll() {
    while (!queue_.empty()) {
      std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      work();
    }
  }

  bool idle() const { return queue_.empty(); }

 private:
  std::deque<std::function<void()>> queue_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CALLS_MANUAL_EXECUTOR_FOR_TESTING_H_
