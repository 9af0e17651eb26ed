#ifndef MUSTER_WORKER_RUNTIME_DAEMON_TASK_TABLE_H_
#define MUSTER_WORKER_RUNTIME_DAEMON_TASK_TABLE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"

namespace muster {

namespace v1 {
class HeartbeatReply;
class HeartbeatRequest;
class TaskOrder;
class TaskReport;
}  // namespace v1

// A task that was started. Its destruction kills it and waits for its end.
class RunningTask {
 public:
  virtual ~RunningTask() = default;
  // Does not block; the end is told as any other.
  virtual void Kill() = 0;
};

// Starts the task of an order; `ended` is called once, on any thread, when it is over.
using TaskStarter = std::function<absl::StatusOr<std::unique_ptr<RunningTask>>(
    const v1::TaskOrder& order, std::function<void(const v1::TaskReport&)> ended)>;

// The tasks of a worker daemon, kept as the coordinator orders: starts what is missing, stops what
// is no longer ordered, and reports each task until it is forgotten. A task that ended is not
// started again, as only the coordinator decides what follows; it then orders a higher incarnation.
//
// A task that computes on a device has one for itself, from its start to its end. The coordinator
// counts them, but a task that is to be stopped may still hold its own: the next one's start waits
// until that is gone. Thread-safe.
class TaskTable {
 public:
  // `devices` are the numbers of those that are there for tasks. `changed` is called, without
  // locks, when a task ended.
  TaskTable(TaskStarter start, const std::vector<uint32_t>& devices, std::function<void()> changed);
  // Kills all tasks and waits for their end.
  ~TaskTable();

  // Makes the tasks be those of the orders. Not to be called by two threads at once.
  void Reconcile(const v1::HeartbeatReply& orders);

  // Adds every task's state to a heartbeat. One that is being stopped counts as running until it is
  // gone.
  void Report(v1::HeartbeatRequest& heartbeat) const;

  // Tasks that run, those being stopped included.
  int running() const;

  // Kills all tasks and waits for their end.
  void StopAll();

 private:
  // Job, generation, slot, incarnation.
  using Key = std::tuple<std::string, uint64_t, uint32_t, uint64_t>;

  struct Entry {
    // Null until it is started, and where starting failed.
    std::unique_ptr<RunningTask> task;
    std::unique_ptr<v1::TaskReport> report;
    bool ordered = true;
    // Not started yet: waits for a device.
    std::unique_ptr<v1::TaskOrder> waiting;
    // Start of it is under way.
    bool starting = false;
    absl::optional<uint32_t> device;
  };

  static Key KeyOf(const v1::TaskOrder& order);
  // Takes those that can be started: they need no device, or got one.
  std::vector<std::unique_ptr<v1::TaskOrder>> TakeStartableLocked()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts what can be started now.
  void StartWaiting();
  void Start(const v1::TaskOrder& order);
  void Ended(const Key& key, const v1::TaskReport& report);
  // Takes out what ended and is no longer ordered, to be destroyed without the lock.
  std::vector<std::unique_ptr<RunningTask>> ForgetLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TaskStarter start_;
  const bool has_devices_;
  const std::function<void()> changed_;

  mutable absl::Mutex mutex_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // The one that was used least recently first: what replaces a task whose device failed gets
  // another, if there is one.
  std::deque<uint32_t> free_devices_ ABSL_GUARDED_BY(mutex_);
  // Calls of Start under way.
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DAEMON_TASK_TABLE_H_
