#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_MEMBER_CHANGES_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_MEMBER_CHANGES_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/lifecycle/member_plan.h"

namespace muster {

// Changes which slots of a job on servers train, while the tables stay where they are
// (MembersChangeOnServers).
//
//   what happens                      when the present tasks end
//
//   a slot has got a worker           after a step that all make, some seconds after the last
//                                     change, so that one change takes all that came meanwhile
//   a worker must end, or another     after a step that all make
//   job waits for it
//   a worker is lost, and none is     at once: the others wait for the lost slot's part of a step,
//   free within `elastic_wait`        which the next members make again
//
// Tasks hear with the answers to their reports after which clock they end. Once all have ended, or
// are lost, the next generation is stored. Its first task ends the present one on the servers,
// which refuse its calls from then on, and finds out which clock they had completed; there the new
// members go on. So no member of the last generation can do harm, and the next one is not held up
// for long by tasks that do not end. A change under way is not stored: a coordinator that is
// started again decides anew. Logic thread only.
class MemberChanges {
 public:
  // All references outlive it. `lease` bounds the wait for tasks that are to end at once;
  // `elastic_wait`: see CoordinatorOptions.
  MemberChanges(JobTable& jobs, JobLifecycle& lifecycle, const Clock& clock, absl::Duration lease,
                absl::Duration elastic_wait)
      : jobs_(jobs),
        lifecycle_(lifecycle),
        clock_(clock),
        lease_(lease),
        elastic_wait_(elastic_wait) {}

  // Begins changes that are due, and completes those whose tasks have ended. Idempotent. Errors are
  // the store's.
  absl::Status Run();

 private:
  absl::Status RunJob(Job& job);
  MemberPlan PlanFor(const Job& job) const;
  // Returns whether a change that is planned may begin now.
  bool MayBegin(const Job& job, const MemberPlan& plan) const;
  void Begin(Job& job, const MemberPlan& plan) const;
  // Has tasks end at once that were to end later, if some slot they would wait for is lost.
  void HurryIfLost(Job& job) const;
  // Returns whether nothing of the present generation is to be waited for.
  bool HasEnded(const Job& job) const;
  absl::Status Complete(Job& job, const MemberPlan& plan);

  JobTable& jobs_;
  JobLifecycle& lifecycle_;
  const Clock& clock_;
  const absl::Duration lease_;
  const absl::Duration elastic_wait_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_MEMBER_CHANGES_H_
