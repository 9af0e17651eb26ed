#ifndef MUSTER_CLIENT_TERMINAL_PROGRESS_DISPLAY_H_
#define MUSTER_CLIENT_TERMINAL_PROGRESS_DISPLAY_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "client/terminal/wait_changes.h"

namespace muster {

namespace v1 {
class JobStatus;
}  // namespace v1

// Shows a job's progress on standard output: a bar that redraws itself on a terminal; elsewhere
// plain lines, one every few seconds and one at each change of state, but none that is the same as
// the one before. A line of its own says what the job waits for, each time that this changes. One
// display per job. Single-threaded.
class ProgressDisplay {
 public:
  ProgressDisplay();
  // Calls `print`, in place of printing lines, with the statuses that are due, each of which
  // differs from the one before.
  explicit ProgressDisplay(std::function<void(const v1::JobStatus&)> print);

  void Show(const v1::JobStatus& status);
  // Ends the line of the bar.
  void Finish();

 private:
  void ShowBar(const v1::JobStatus& status);
  // `wait`: what WaitChanges tells.
  void ShowWait(const std::string& wait);
  // Returns true, and notes it, if this is not what was printed last.
  bool IsNew(std::string line);

  const bool terminal_;
  // Null: prints lines.
  const std::function<void(const v1::JobStatus&)> print_;
  size_t shown_width_ = 0;
  std::string shown_;
  WaitChanges waits_;
  // Time of the last output, on the monotonic clock.
  absl::Duration shown_at_ = -absl::InfiniteDuration();
  int shown_state_ = 0;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_PROGRESS_DISPLAY_H_
