#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_SLOW_WORKERS_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_SLOW_WORKERS_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// Makes jobs that ask for it (JobSpec.replace_slow) leave workers that stay slow beside the others
// (SlowSlots). Departures then gives the slots up, and Scheduler places them elsewhere.
//
// A worker stays slow if at every look for `slow_after` all slots that the job has there are slow,
// and each of them has told of three parts of its steps in that time. The job leaves it when other
// workers have room for these slots, less those that the job has beyond its workers (max_workers).
// It leaves one worker at a time, none within five minutes after the last, and has left a third of
// the live workers at most, or one. Meanwhile its status says what it waits for.
//
// Which workers a job has left is stored. For how long one has been slow is not: after a restart
// of the coordinator both times begin anew. Logic thread only.
class SlowWorkers {
 public:
  static constexpr absl::Duration kPause = absl::Minutes(5);

  // All references outlive it.
  SlowWorkers(JobTable& jobs, const Membership& members, const Clock& clock,
              absl::Duration slow_after)
      : jobs_(jobs), members_(members), clock_(clock), slow_after_(slow_after) {}

  // Looks at the jobs once a second, however often it is called. Errors are the store's; what
  // failed is done at the next look.
  absl::Status Look();

 private:
  struct Watch {
    // Times since which workers have been slow, by id.
    std::map<std::string, absl::Duration> since;
    // Time before which the job leaves no worker.
    absl::Duration not_before;
  };

  absl::Status LookAt(Job& job, Watch& watch);
  // Returns the slowest slot's reason for each worker whose slots are all slow.
  std::map<std::string, std::string> FindSlow(const Job& job) const;
  // Returns whether the worker, which is slow now, has been for long enough.
  bool StaysSlow(const Job& job, const std::string& worker_id, absl::Duration since) const;
  // Returns what the job lacks to leave the worker; empty: nothing.
  std::string Lacks(const Job& job, const std::string& worker_id) const;
  absl::Status Leave(Job& job, const std::string& worker_id, const std::string& reason);

  JobTable& jobs_;
  const Membership& members_;
  const Clock& clock_;
  const absl::Duration slow_after_;
  absl::Duration next_look_;
  // By job.
  std::map<std::string, Watch> watches_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_SLOW_WORKERS_H_
