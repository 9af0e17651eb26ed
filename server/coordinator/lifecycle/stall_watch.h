#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_STALL_WATCH_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_STALL_WATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"

namespace muster {

// Whether other tasks cannot go on before this slot's task does something: it has not come where
// they meet or evaluate, or is further behind them than the job's staleness allows. A slot without
// a worker, or whose servers are gone, keeps nobody waiting: something else does.
bool IsAwaited(const Job& job, uint32_t slot);

// Such slots that have been awaited for at least `time`, as far as a StallWatch has noted.
std::vector<uint32_t> AwaitedFor(absl::Duration time, absl::Duration now, const Job& job);

// Finds tasks that live, so that no lease ends and no connection breaks, but do not move: stopped,
// or stuck in a driver, a file system or themselves. It shows in that others wait for them. How
// long a step takes is nobody's business here, and a task that all wait with is not stuck.
//
// A task that is awaited for `stall_timeout` without closing a clock is ended, and another takes
// its slot. By all-reduce the others notice first that their call is not over in that time, and
// meet: who has not come a lease later is stuck.
//
// What is known of waiting is lost with the process, and counted anew. Logic thread only.
class StallWatch {
 public:
  // All references outlive it.
  StallWatch(JobTable& jobs, JobLifecycle& lifecycle, const Clock& clock, absl::Duration lease,
             absl::Duration stall_timeout);

  // Looks at every job, and ends the tasks that have been awaited for too long. Errors are the
  // store's; what failed is done at the next look.
  absl::Status Look();

  // Time in which nobody was heard is not held against anyone.
  void Excuse(absl::Duration pause);

 private:
  absl::Status LookAt(Job& job);
  // Notes that the slot is awaited; how much longer it may be.
  absl::Duration TimeLeft(Job& job, uint32_t slot);

  JobTable& jobs_;
  JobLifecycle& lifecycle_;
  const Clock& clock_;
  const absl::Duration lease_;
  const absl::Duration stall_timeout_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_STALL_WATCH_H_
