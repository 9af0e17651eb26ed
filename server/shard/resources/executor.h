#ifndef MUSTER_SERVER_SHARD_RESOURCES_EXECUTOR_H_
#define MUSTER_SERVER_SHARD_RESOURCES_EXECUTOR_H_

#include <functional>

namespace muster {

// Runs tasks some time later, on threads of its own. Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;

  // Queues the task. Never blocks, and never runs the task within the call.
  virtual void Add(std::function<void()> task) = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_RESOURCES_EXECUTOR_H_
