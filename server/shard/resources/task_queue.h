#ifndef MUSTER_SERVER_SHARD_RESOURCES_TASK_QUEUE_H_
#define MUSTER_SERVER_SHARD_RESOURCES_TASK_QUEUE_H_

#include <deque>
#include <functional>
#include <utility>

#include "server/shard/resources/executor.h"

namespace muster {

// An executor whose tasks run when the caller says so, in the caller's thread. Not thread-safe.
class TaskQueue final : public Executor {
 public:
  void Add(std::function<void()> task) override { tasks_.push_back(std::move(task)); }

  bool idle() const { return tasks_.empty(); }

  // Runs the oldest task, if there is one.
  void RunOne() {
    if (idle()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
  }

  // Runs all tasks, and the tasks that they add.
  void RunAll() {
    while (!idle()) RunOne();
  }

 private:
  std::deque<std::function<void()>> tasks_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_RESOURCES_TASK_QUEUE_H_
