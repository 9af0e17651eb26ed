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

// The memory that a task may take.
struct TaskAllowance {
  // Bytes that `muster plan` predicts, without other processes' memory that the task maps, and with
  // the most rows that the data can have; 0 if there is no plan to hold the task to.
  uint64_t planned_bytes = 0;
  // Most bytes of anonymous and shared pages that the task may have: 1.25 times the plan, 64 MiB,
  // other processes' memory that the task maps, and memory that data readers need for a while.
  uint64_t most_bytes = 0;
};

// Returns the allowance of a job's tasks; reads the beginnings of the job's data. A job that
// computes on devices gets none: how much of the machine's memory CUDA takes is only guessed.
TaskAllowance AllowanceOf(const v1::JobSpec& spec);

// Reports when a task takes more memory than planned, so that the task ends before the machine
// kills some process. Looks ten times a second; a look costs some 30 microseconds.
class PlanWatch {
 public:
  struct Options {
    // Returns what may be taken. Called once, on the watch's thread.
    std::function<TaskAllowance()> allowance;
    // Returns the bytes taken now.
    std::function<uint64_t()> taken_bytes;
    absl::Duration period = absl::Milliseconds(100);
    // Called at most once, on the watch's thread. RESOURCE_EXHAUSTED names plan and taken bytes.
    std::function<void(const absl::Status&)> exceeded;
  };

  explicit PlanWatch(Options options);
  // Waits for a look in progress.
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
