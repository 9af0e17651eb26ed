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

// A started task. The destructor kills the task as Kill does, and waits for its end.
class RunningTask {
 public:
  virtual ~RunningTask() = default;
  // Kills the task, in its grace if it has any, without blocking. Its end is reported like any
  // other.
  virtual void Kill() = 0;
};

// Starts the task of an order. `ended` is called once, on any thread, when the task is over.
using TaskStarter = std::function<absl::StatusOr<std::unique_ptr<RunningTask>>(
    const v1::TaskOrder& order, std::function<void(const v1::TaskReport&)> ended)>;

// The tasks of a worker daemon. Follows the coordinator's orders: starts missing tasks, stops tasks
// that are no longer ordered, and reports each task until the coordinator forgets it. A task that
// ended is not started again: the coordinator decides, and orders a higher incarnation.
//
// A task that computes on a device has one to itself, from its start to its end. The coordinator
// counts devices, but a task that is being stopped may still hold one; the next task starts once
// that device is free.
//
// A task that runs a program gets time to end. Tasks of the same job that follow it start once it
// has, so that memory is not taken twice. Thread-safe.
class TaskTable {
 public:
  // `devices` has the numbers of tasks' devices. `changed` is called without locks when a task
  // ends.
  TaskTable(TaskStarter start, const std::vector<uint32_t>& devices, std::function<void()> changed);
  // Kills all tasks and waits for their end.
  ~TaskTable();

  // Starts and stops tasks so that those of the orders run. Not for calls by two threads at once.
  void Reconcile(const v1::HeartbeatReply& orders);

  // Adds every task's state to a heartbeat. A task that is being stopped still counts as running.
  void Report(v1::HeartbeatRequest& heartbeat) const;

  // Returns the number of tasks that run, including tasks that are being stopped.
  int running() const;

  // Returns the number of tasks that have not left yet: those that are ordered, or still run. Tasks
  // that run programs do not count: they leave when they are stopped.
  int CountToLeave() const;

  // Kills all tasks, and waits for their end; tasks that run programs have their grace. Nothing is
  // started afterwards, and until the end all tasks are reported as running.
  void StopAll();

 private:
  // Job, generation, slot, incarnation.
  using Key = std::tuple<std::string, uint64_t, uint32_t, uint64_t>;

  struct Entry {
    // Null until the task is started, and if starting failed.
    std::unique_ptr<RunningTask> task;
    std::unique_ptr<v1::TaskReport> report;
    bool ordered = true;
    bool runs_program = false;
    // The order, until its task is about to start; a task may wait for a device.
    std::unique_ptr<v1::TaskOrder> waiting;
    // True while Start runs for this task.
    bool starting = false;
    absl::optional<uint32_t> device;
  };

  static Key KeyOf(const v1::TaskOrder& order);
  // Takes the orders of tasks that can start: those that need no device, or got one.
  std::vector<std::unique_ptr<v1::TaskOrder>> TakeStartableLocked()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether a task of the job is being stopped.
  bool AnyEndsLocked(const std::string& job_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts all tasks that can start now.
  void StartWaiting();
  void Start(const v1::TaskOrder& order);
  void Ended(const Key& key, const v1::TaskReport& report);
  // Removes ended tasks without an order, for the caller to destroy without the lock.
  std::vector<std::unique_ptr<RunningTask>> ForgetLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TaskStarter start_;
  const bool has_devices_;
  const std::function<void()> changed_;

  mutable absl::Mutex mutex_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // Free devices, least recently used first: so the replacement of a task whose device failed gets
  // another device, if there is one.
  std::deque<uint32_t> free_devices_ ABSL_GUARDED_BY(mutex_);
  // StopAll was called.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Number of calls of Start under way.
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DAEMON_TASK_TABLE_H_
