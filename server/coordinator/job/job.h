#ifndef MUSTER_SERVER_COORDINATOR_JOB_JOB_H_
#define MUSTER_SERVER_COORDINATOR_JOB_JOB_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/job_record.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/job/collective_reports.h"
#include "server/coordinator/job/evaluation_gatherer.h"
#include "server/coordinator/job/job_log.h"
#include "server/coordinator/job/progress_tracker.h"
#include "server/coordinator/job/rendezvous.h"

namespace muster {

// What is known of a slot's present task, beyond the record.
struct TaskView {
  // Its daemon says that it runs.
  bool running = false;
  // It has called since its incarnation, or the last recovery, began.
  bool heard = false;
  // No task is started in the slot earlier than this.
  absl::Duration not_before = -absl::InfiniteDuration();
  // Since when the slot has had no worker, if it has none.
  std::optional<absl::Duration> unplaced_since;
  // How long others have waited for it, if they have (see StallWatch).
  struct Awaited {
    absl::Duration since;
    // When it was seen to be awaited last.
    absl::Duration seen;
    // Where it was then.
    uint64_t clock = 0;
    uint64_t round = 0;
    // The others had waited long before they came to wait here.
    bool late = false;
  };
  std::optional<Awaited> awaited;
  // What the task of this incarnation says it cannot reach; empty: nothing.
  uint64_t waiting_incarnation = 0;
  std::string waits_for;
};

// A job in the coordinator's memory. The record is the durable part and changes through JobTable
// only; all else is lost with the process and told again by daemons and tasks. Logic thread only.
struct Job {
  struct ShardMapCall {
    uint32_t slot = 0;
    uint64_t min_version = 0;
    absl::Duration deadline;
    Call<v1::ShardMap> call;
  };

  Job(v1::JobRecord stored, uint64_t max_log_bytes);

  const std::string& id() const { return record.job_id(); }
  uint32_t slots() const { return record.spec().workers(); }

  // Answers the parked calls of one slot's task, or of all, with an error.
  void AnswerSlot(uint32_t slot, const absl::Status& status);
  void AnswerAll(const absl::Status& status);
  // Answers those whose callers are gone. By all-reduce, whoever does not wait any more has not
  // come.
  void DropGoneCalls();
  // A later call of the same task takes the place of the one that is parked.
  void ParkRendezvous(uint32_t slot, Call<v1::RendezvousReply> call);
  void ParkEvaluation(uint32_t slot, Call<v1::ReportEvaluationReply> call);
  void ParkCommit(const v1::CommitCheckpointRequest& request, Call<v1::CommitCheckpointReply> call);
  // By all-reduce: the round ended before all its tasks had reported.
  void EndEvaluation();

  v1::JobRecord record;
  // Serialised v1::DataPreparation of the weights that the job was submitted to start from, then of
  // its own checkpoints, which have that one if there was one. Beside the record, which is written
  // often. Empty: not known, or the data need none.
  std::string data_preparation;
  std::vector<TaskView> tasks;
  ProgressTracker progress;
  Rendezvous rendezvous;
  // By all-reduce: what the tasks of the present round were told, if this process told them.
  std::optional<v1::RendezvousReply> open_round;
  // By all-reduce: why the last round ended, for people, as its tasks said when they met again;
  // empty: no call of theirs failed.
  std::string round_failures;
  // By all-reduce: since when all whom the next round waits for are there, if they are.
  std::optional<absl::Duration> all_there_since;
  CollectiveReports collectives;
  EvaluationGatherer evaluation;
  JobLog log;
  std::deque<v1::JobEvent> events;
  uint64_t next_event = 0;

  // Why it does not go on, if so.
  std::string waiting_for;
  // Why its last checkpoint is not written yet, if so.
  std::string checkpoint_waits_for;
  // Servers whose return it waits for.
  std::set<std::string> missing_servers;
  // What servers have replayed of its logs, by server.
  std::map<std::string, v1::ReplayStatus> replays;
  // When it was seen to have ended, and whether what its cuts left behind has been removed since.
  std::optional<absl::Duration> seen_ended;
  bool swept = false;
  // Its checkpoints are being removed, and it goes with them.
  bool removing = false;
  // Grows with whatever its status shows.
  uint64_t status_version = 1;
  // Progress reached the store at this time; something came since.
  absl::Duration progress_stored;
  bool progress_unsaved = false;

  // Parked calls, by slot.
  std::map<uint32_t, Call<v1::RendezvousReply>> rendezvous_calls;
  std::map<uint32_t, Call<v1::ReportEvaluationReply>> evaluation_calls;
  std::vector<ShardMapCall> shard_map_calls;
  // The checkpoint whose manifest is being written; there is one at a time.
  std::optional<v1::CommitCheckpointRequest> committing;
  // Who waits for a commit, and for which.
  std::map<uint32_t, Call<v1::CommitCheckpointReply>> commit_calls;
  std::map<uint32_t, v1::CommitCheckpointRequest> commit_requests;
  // Files of the last cut that was given up, which are removed.
  std::set<std::string> given_up_files;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_JOB_H_
