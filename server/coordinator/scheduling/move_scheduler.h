#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_MOVE_SCHEDULER_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_MOVE_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/cluster_service.pb.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/scheduling/move_plan.h"
#include "server/coordinator/scheduling/partition_loads.h"

namespace muster {

// Moves partitions of running jobs, to drain servers and to rebalance jobs.
//
// Under EVERY_PUSH partitions move one by one. Each move is a note in the job's record, from which
// orders are made (server/shard/moves/partition_move.h describes the protocol):
//
//   COPYING    the new owner copies; the old one is the owner
//   MOVED      the new owner has all on its disk, and the shard map's next version names it; lasts
//              until the old one reports that it deleted its part
//   GIVEN_UP   the new owner was lost, is drained itself or failed, and the old one goes on; lasts
//              until the new one has deleted its part
//
// Each step is stored before anybody hears of it, so a restarted coordinator continues a move where
// it was. Under CHECKPOINT the state of the open clock is in memory alone: the job waits for its
// next checkpoint, goes back to it at once, and is placed anew.
//
// A job that asks for it (UpdateSpec.move_hot_partitions) also moves a partition from a server that
// is much busier than others (hot_partitions.h), when nothing else moves: one at a time, and none
// within a minute after the last.
//
// Logic thread only.
class MoveScheduler {
 public:
  // All references outlive it.
  MoveScheduler(JobTable& jobs, const Membership& members, JobLifecycle& lifecycle,
                const Clock& clock);

  // Drains a server or worker, or starts to rebalance a job, for JobService; see there for the
  // errors.
  absl::StatusOr<v1::DrainServerReply> Drain(const v1::DrainServerRequest& request);
  absl::Status Rebalance(const std::string& job_id);

  // Takes a server's reports on its moves. Errors are the store's; the server then reports again.
  absl::Status TakeReports(const v1::HeartbeatRequest& request);

  // Starts and gives up moves as needed. Idempotent.
  absl::Status Run();

  // Returns the state of the servers and workers that are being drained, in order of id.
  std::vector<v1::DrainStatus> Drains() const;

 private:
  absl::Status RunJob(Job& job);
  // Starts a job's next move, under EVERY_PUSH.
  absl::Status MoveNext(Job& job);
  // Starts a move of a partition that takes much of a server's time, if there is one.
  absl::Status MoveHot(Job& job, const absl::flat_hash_set<std::string>& excluded);
  // Notes the move. `why` ends the event.
  absl::Status Begin(Job& job, const PlannedMove& planned, const std::string& why,
                     v1::JobEvent::Kind kind);
  // Makes a job leave its servers after its next checkpoint, under CHECKPOINT.
  absl::Status LeaveAfterCheckpoint(Job& job);
  absl::Status GiveUp(Job& job, int move, const std::string& why);
  absl::Status Complete(Job& job, int move);
  // Notes that a move of the job to the server failed.
  void NoteFailure(const Job& job, const std::string& server);
  // Returns servers that could take the job's partitions, except that a move there failed lately.
  std::vector<std::string> Resting(const Job& job) const;
  // Returns whether the move is over and a live server still deletes its part of it.
  bool IsBeingDeleted(const v1::MoveRecord& move) const;
  // Notes what the job's moves wait for.
  void Wait(const Job& job, std::string why);

  JobTable& jobs_;
  const Membership& members_;
  JobLifecycle& lifecycle_;
  const Clock& clock_;
  // Reasons why jobs' moves wait, by job.
  std::map<std::string, std::string> waiting_;
  // Jobs under CHECKPOINT that are to leave a server: generation and last checkpoint when found.
  struct Leaving {
    uint64_t generation = 0;
    uint64_t clock = 0;
  };
  std::map<std::string, Leaving> leaving_;
  // Time at which a job's next move may start after one that failed, by job.
  std::map<std::string, absl::Duration> not_before_;
  PartitionLoads loads_;
  // Time at which a job's loads are looked at again, by job.
  std::map<std::string, absl::Duration> next_hot_look_;
  struct Failure {
    absl::Duration pause;
    absl::Duration not_before;
  };
  // Pauses before the next move to a server that a move failed to reach, by job and server.
  std::map<std::pair<std::string, std::string>, Failure> failures_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_MOVE_SCHEDULER_H_
