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

// Returns the slots whose tasks are awaited by others, in order: they have not come where the
// others meet, evaluate, ask what is decided or commit a program's checkpoint, or are further
// behind than the job's staleness allows. A slot without a worker, or in a job whose servers are
// missing, is not awaited: something else keeps the others. Takes a few looks at each slot, however
// many there are.
std::vector<uint32_t> AwaitedSlots(const Job& job);

// Returns the awaited slots that a StallWatch has seen awaited for at least `time`.
std::vector<uint32_t> AwaitedFor(absl::Duration time, absl::Duration now, const Job& job);

// Finds tasks that live but do not move, so that no lease ends and no connection breaks: stopped,
// or stuck in a driver, a file system or themselves. It finds them by the tasks that wait for them.
// The length of a step does not matter, and a task that waits like all others is not stuck.
//
// A task that is awaited for `stall_timeout` without closing a clock is ended, and another takes
// its slot. By all-reduce the others first notice that their call has not ended in that time, and
// come to meet again; a task that has not come a lease later is stuck. In a hybrid job the same
// holds once the others have come for any reason: they may keep open the clock for which it waits.
//
// The processes of a program wait for one another where nobody here sees it. If the program says
// within what time each reports a step, one that does not is ended. Where some of them wait with
// their parts of a checkpoint, nobody is ended, since to write a part may take long: after
// `stall_timeout` the checkpoint is given up, and those that wait are told who is missing.
//
// Waiting times are lost with the process and counted anew. Logic thread only.
class StallWatch {
 public:
  // All references outlive it.
  StallWatch(JobTable& jobs, JobLifecycle& lifecycle, const Clock& clock, absl::Duration lease,
             absl::Duration stall_timeout);

  // Looks at every job and ends the tasks that have been awaited for too long. Errors are the
  // store's; what failed is done at the next look.
  absl::Status Look();

  // Excludes a pause, in which the coordinator heard nobody, from all waiting times.
  void Excuse(absl::Duration pause);

 private:
  absl::Status LookAt(Job& job);
  // Answers those that wait with their parts of a program's checkpoint.
  void GiveUpParts(Job& job);
  // Ends the first of these slots' tasks, and names all. REQUIRES: there are some.
  absl::Status EndSilent(Job& job, const std::vector<uint32_t>& silent, absl::Duration limit);
  // Notes that the slot is awaited, and whether it is overdue (TaskState::Awaited). Returns how
  // much longer it may be.
  absl::Duration TimeLeft(Job& job, uint32_t slot, bool overdue);

  JobTable& jobs_;
  JobLifecycle& lifecycle_;
  const Clock& clock_;
  const absl::Duration lease_;
  const absl::Duration stall_timeout_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_STALL_WATCH_H_
