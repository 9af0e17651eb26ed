#ifndef MUSTER_CLIENT_TERMINAL_PROGRESS_DISPLAY_H_
#define MUSTER_CLIENT_TERMINAL_PROGRESS_DISPLAY_H_

#include <cstddef>
#include <functional>

#include "absl/time/time.h"

namespace muster {

namespace v1 {
class JobStatus;
}  // namespace v1

// Shows a job's progress on standard output: a bar that redraws itself on a terminal; elsewhere
// plain lines, one every few seconds and one at each change of state. One display per job.
// Single-threaded.
class ProgressDisplay {
 public:
  ProgressDisplay();
  // Calls `print`, in place of printing lines, with the statuses that are due.
  explicit ProgressDisplay(std::function<void(const v1::JobStatus&)> print);

  void Show(const v1::JobStatus& status);
  // Ends the line of the bar.
  void Finish();

 private:
  const bool terminal_;
  const std::function<void(const v1::JobStatus&)> print_;
  size_t shown_width_ = 0;
  // Time of the last output, on the monotonic clock.
  absl::Duration shown_at_ = -absl::InfiniteDuration();
  int shown_state_ = 0;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_PROGRESS_DISPLAY_H_
