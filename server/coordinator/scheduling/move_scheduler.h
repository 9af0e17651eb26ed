#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_MOVE_SCHEDULER_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_MOVE_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/cluster_service.pb.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"

namespace muster {

// Partitions that move while their jobs run: servers that are drained, jobs that are rebalanced.
//
// Under EVERY_PUSH partitions move one by one, each by a note in the job's record that orders are
// made of (server/shard/moves/partition_move.h has the protocol):
//
//   COPYING    the new owner copies; the old one is the owner
//   MOVED      the new owner said that all is on its disk: the shard map's next version names it.
//              Until the old one has said that it deleted what it had
//   GIVEN_UP   the new owner was lost, is drained itself or cannot: the old one goes on. Until the
//              new one has deleted what it had
//
// Each step is stored before anybody hears of it, so a restart goes on in its middle. Under
// CHECKPOINT the state of the open clock is in memory alone: such a job goes back to its next
// checkpoint, at once after that was taken, and is placed anew.
//
// Logic thread only.
class MoveScheduler {
 public:
  // All references outlive it.
  MoveScheduler(JobTable& jobs, const Membership& members, JobLifecycle& lifecycle,
                const Clock& clock);

  // The calls of JobService; see there for the errors.
  absl::StatusOr<v1::DrainServerReply> Drain(const v1::DrainServerRequest& request);
  absl::Status Rebalance(const std::string& job_id);

  // What a server reports of its orders. Errors are the store's; reports come again.
  absl::Status TakeReports(const v1::HeartbeatRequest& request);

  // Starts and gives up moves as need be. Idempotent.
  absl::Status Run();

  // Of the servers that are being drained, in order of id.
  std::vector<v1::DrainStatus> Drains() const;

 private:
  absl::Status RunJob(Job& job);
  // Under EVERY_PUSH.
  absl::Status MoveNext(Job& job);
  // Under CHECKPOINT.
  absl::Status LeaveAfterCheckpoint(Job& job);
  absl::Status GiveUp(Job& job, int move, const std::string& why);
  absl::Status Complete(Job& job, int move);
  // A move of the job to the server failed.
  void NoteFailure(const Job& job, const std::string& server);
  // Servers that would take the job's partitions, but failed lately.
  std::vector<std::string> Resting(const Job& job) const;
  // Whether the move is over, and a live server deletes what it had of it.
  bool IsBeingDeleted(const v1::MoveRecord& move) const;
  // Why the job's server is not drained yet.
  void Wait(const Job& job, std::string why);

  JobTable& jobs_;
  const Membership& members_;
  JobLifecycle& lifecycle_;
  const Clock& clock_;
  // By job: what its moves wait for.
  std::map<std::string, std::string> waiting_;
  // By job under CHECKPOINT that is to leave a server: generation, and the clock of its last
  // checkpoint when that was found out.
  struct Leaving {
    uint64_t generation = 0;
    uint64_t clock = 0;
  };
  std::map<std::string, Leaving> leaving_;
  // By job: when the next move may start, after one that failed.
  std::map<std::string, absl::Duration> not_before_;
  struct Failure {
    absl::Duration pause;
    absl::Duration not_before;
  };
  // By job and server that a move failed to reach: the server's next one.
  std::map<std::pair<std::string, std::string>, Failure> failures_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_MOVE_SCHEDULER_H_
