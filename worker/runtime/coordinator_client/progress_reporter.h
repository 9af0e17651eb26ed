#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROGRESS_REPORTER_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROGRESS_REPORTER_H_

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"

namespace muster {

// What one training step, or several, came to.
struct StepReport {
  // Clocks closed, the step included.
  uint64_t clock = 0;
  double loss_sum = 0;
  // What loss_sum is divided by for the mean: MicroBatch::loss_weight.
  uint64_t loss_weight = 0;
  uint64_t examples = 0;
  uint64_t steps = 0;
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  // Payload of collective calls: for dense gradients, and for all else.
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t other_bytes_sent = 0;
  uint64_t other_bytes_received = 0;
  uint64_t staleness_sum = 0;
  uint64_t staleness_max = 0;
  // Spent in these steps, evaluations and checkpoints left out; and what it is made of: this
  // process's own work, waiting for the data plane, waiting for the data.
  double training_seconds = 0;
  double compute_seconds = 0;
  double exposed_communication_seconds = 0;
  double waiting_seconds = 0;
};

struct ProgressReporterOptions {
  // Between reports of steps.
  absl::Duration interval = absl::Milliseconds(250);
  // A report is sent after this long even if no step ended, since the reply may ask for something.
  absl::Duration poll = absl::InfiniteDuration();
  // Fills in the task's last collective calls when somebody wants to see them. Called on the
  // reporter's thread.
  std::function<void(v1::ReportCollectivesRequest&)> collectives;
};

// Tells the coordinator of progress, at most once per interval and never on the trainer's thread.
// What could not be told is added to the next report. The loss told is that of all steps since the
// report before, but at the end that of the last step alone: what equal runs end with then does not
// depend on when reports were sent. Thread-safe.
class ProgressReporter {
 public:
  // `coordinator` outlives the reporter.
  explicit ProgressReporter(CoordinatorClient& coordinator, ProgressReporterOptions options = {});
  // Ends without telling what is left.
  ~ProgressReporter();

  // Adds a step (or none, to tell the clock that a task starts at). Cheap, does not block on the
  // network.
  void Add(const StepReport& step);

  // Aborted or NotFound once the coordinator said so: the task must end.
  absl::Status status() const;

  // The highest round of collectives that the coordinator wants to be left; 0: none.
  uint64_t meet_after_round() const;

  // Tells now what is pending and what the process has used, though no step may have ended since,
  // in one attempt, so that what the coordinator hears next finds it up to date. Blocks for the
  // call.
  void Flush();

  // Tells what is left, and the loss of the last step, in at most a few attempts, and ends.
  void Finish();

 private:
  enum class Empty { kKeep, kSend };

  void Run();
  // Sends what is pending; false: nothing was to be sent or it could not be.
  bool Send(Empty empty);
  // What the reply to a report asks for.
  void Answer(const v1::ReportProgressReply& reply);
  void TakeStatus(const absl::Status& status);

  CoordinatorClient& coordinator_;
  const ProgressReporterOptions options_;

  // One report at a time, in order.
  absl::Mutex sending_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  StepReport pending_ ABSL_GUARDED_BY(mutex_);
  // The last step added; without steps: there was none.
  StepReport last_ ABSL_GUARDED_BY(mutex_);
  // The highest one told of.
  uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t meet_after_round_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_PROGRESS_REPORTER_H_
