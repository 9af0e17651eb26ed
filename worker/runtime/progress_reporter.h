#ifndef MUSTER_WORKER_RUNTIME_PROGRESS_REPORTER_H_
#define MUSTER_WORKER_RUNTIME_PROGRESS_REPORTER_H_

#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/runtime/coordinator_client.h"

namespace muster {

// What one training step, or several, came to.
struct StepReport {
  // Clocks closed, the step included.
  uint64_t clock = 0;
  double loss_sum = 0;
  uint64_t examples = 0;
  uint64_t steps = 0;
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  uint64_t staleness_sum = 0;
  uint64_t staleness_max = 0;
  // Spent in these steps, evaluations and checkpoints left out.
  double training_seconds = 0;
};

// Tells the coordinator of progress, at most once per interval and never on the trainer's thread.
// What could not be told is added to the next report. Thread-safe.
class ProgressReporter {
 public:
  // `coordinator` outlives the reporter.
  explicit ProgressReporter(CoordinatorClient& coordinator,
                            absl::Duration interval = absl::Milliseconds(250));
  // Ends without telling what is left.
  ~ProgressReporter();

  // Adds a step. Cheap, does not block on the network.
  void Add(const StepReport& step);

  // Aborted or NotFound once the coordinator said so: the task must end.
  absl::Status status() const;

  // Tells what is left, in at most a few attempts, and ends.
  void Finish();

 private:
  void Run();
  // Sends what is pending; false: nothing was pending or it could not be sent.
  bool Send();

  CoordinatorClient& coordinator_;
  const absl::Duration interval_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  StepReport pending_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRESS_REPORTER_H_
