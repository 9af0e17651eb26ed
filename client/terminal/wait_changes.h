#ifndef MUSTER_CLIENT_TERMINAL_WAIT_CHANGES_H_
#define MUSTER_CLIENT_TERMINAL_WAIT_CHANGES_H_

#include <string>

#include "absl/time/time.h"

namespace muster {

namespace v1 {
class JobStatus;
}  // namespace v1

// Follows what a watched job waits for, so that each wait is told of once.
class WaitChanges {
 public:
  // Takes a status that came at `now`, on the monotonic clock. Returns what the job waits for, on
  // one line; empty if it goes on, or if that was returned last. Every job waits for its tasks'
  // start for a moment, which is left out.
  std::string Next(const v1::JobStatus& status, absl::Duration now);

 private:
  std::string told_;
  // Time since which the job has been PLACING.
  absl::Duration placing_since_ = absl::InfiniteDuration();
};

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_WAIT_CHANGES_H_
