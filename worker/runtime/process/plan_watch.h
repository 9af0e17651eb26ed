#ifndef MUSTER_WORKER_RUNTIME_PROCESS_PLAN_WATCH_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_PLAN_WATCH_H_

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// What a task may take of its machine's memory.
struct TaskAllowance {
  // As `muster plan` has it, without other processes' memory that the task maps, and with as many
  // rows as its data can have at the most; 0: there is no plan to hold the task to.
  uint64_t planned_bytes = 0;
  // Of pages of its own and shared ones, beyond which the task has not kept to its plan: a quarter
  // and 64 MiB more than planned, what it maps of others, and what readers of data need beside them
  // for a while.
  uint64_t most_bytes = 0;
};

// By the job and the beginnings of its data, which are read here. None for a job that computes on
// devices: how much of the machine's memory CUDA takes is only guessed.
TaskAllowance AllowanceOf(const v1::JobSpec& spec);

// Ends a task that takes more memory than was planned, and reserved for it, before the machine ends
// any process it likes: looks ten times a second, which costs some 30 microseconds.
class PlanWatch {
 public:
  struct Options {
    // What may be taken; called once, on the watch's thread.
    std::function<TaskAllowance()> allowance;
    // What is taken now.
    std::function<uint64_t()> taken_bytes;
    absl::Duration period = absl::Milliseconds(100);
    // Called at most once, on the watch's thread: RESOURCE_EXHAUSTED that names plan and peak.
    std::function<void(const absl::Status&)> exceeded;
  };

  explicit PlanWatch(Options options);
  // Waits for the end of a look.
  ~PlanWatch();

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_PLAN_WATCH_H_
