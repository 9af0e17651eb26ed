#ifndef MUSTER_SERVER_COORDINATOR_ALERTS_ALERT_COMMAND_H_
#define MUSTER_SERVER_COORDINATOR_ALERTS_ALERT_COMMAND_H_

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/coordinator/job/job_alert.h"

namespace muster {

// Runs a command of the operator's for each alert, one at a time and in order, on a thread of its
// own. The command is a line for /bin/sh, with the daemon's environment and
//   MUSTER_ALERT (the kind's name), MUSTER_JOB (its id), MUSTER_JOB_NAME, MUSTER_JOB_OWNER,
//   MUSTER_STEP and MUSTER_ALERT_TEXT,
// and on standard input all of them as one JSON object, for webhooks. Its output goes to the
// daemon's. Thread-safe.
class AlertCommand {
 public:
  struct Options {
    std::string command;
    // A command that takes longer is killed, with all processes of its group.
    absl::Duration timeout = absl::Minutes(1);
    // Time that the destructor gives those that wait.
    absl::Duration last = absl::Seconds(1);
    // Receives a line for each alert that could not be told.
    std::function<void(absl::string_view)> log;
  };
  // More alerts than these wait for nobody: the newest is dropped.
  static constexpr size_t kMostWaiting = 1000;

  explicit AlertCommand(Options options);
  // Runs what still waits, as far as its time suffices.
  ~AlertCommand();

  // Does not block.
  void Send(JobAlert alert);

 private:
  bool ReadyLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  // Returns why the command did not tell the alert; empty: it ended well.
  std::string Tell(const JobAlert& alert);

  const Options options_;
  absl::Mutex mutex_;
  std::deque<JobAlert> waiting_ ABSL_GUARDED_BY(mutex_);
  // Set by the destructor: the monotonic time at which everything ends.
  absl::Duration end_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_ALERTS_ALERT_COMMAND_H_
