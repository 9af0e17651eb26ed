#ifndef MUSTER_SERVER_COORDINATOR_JOB_JOB_H_
#define MUSTER_SERVER_COORDINATOR_JOB_JOB_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mesh/job_mesh.h"
#include "proto/job_record.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/history/stored_history.h"
#include "server/coordinator/job/adjust_gatherer.h"
#include "server/coordinator/job/collective_reports.h"
#include "server/coordinator/job/evaluation_gatherer.h"
#include "server/coordinator/job/job_log.h"
#include "server/coordinator/job/program_parts.h"
#include "server/coordinator/job/progress_tracker.h"
#include "server/coordinator/job/rendezvous.h"
#include "server/coordinator/job/step_gatherer.h"
#include "server/coordinator/job/wait_reason.h"

namespace muster {

// State of a slot's present task beside the record.
struct TaskState {
  // True once the task's daemon has reported it running.
  bool running = false;
  // True once the task has called since its incarnation, or the last recovery, began.
  bool heard = false;
  // Earliest time at which a task may start in the slot.
  absl::Duration not_before = -absl::InfiniteDuration();
  // Time at which the slot was first seen without a worker, if it has none.
  std::optional<absl::Duration> unplaced_since;
  // Present if other tasks wait for this one (see StallWatch).
  struct Awaited {
    absl::Duration since;
    // Time at which the task was last seen to be awaited.
    absl::Duration seen;
    // Clock of the slot and round of the job at that time.
    uint64_t clock = 0;
    uint64_t round = 0;
    // True if the slot has only one lease left to come to where the others wait.
    bool overdue = false;
  };
  std::optional<Awaited> awaited;
  // Programs: time since which the task has reported no further step (see StallWatch), and whether
  // it ever has. Absent until the first look.
  std::optional<absl::Duration> silent_since;
  bool has_reported = false;
  // Incarnation of the task that last reported a wait, and what it cannot reach; empty: nothing.
  uint64_t waiting_incarnation = 0;
  std::string waits_for;
  // The collective call that the task has been in for some seconds, as it last reported; empty:
  // none.
  std::string sits_in;
  // True if the task is to leave after its step (Departures).
  bool leaves = false;
  // The job that waits for this slot, which its own job can do without; empty: none.
  std::string wanted_by;
  // True under min_workers if the next round does not wait for the slot, which was given up in an
  // orderly way.
  bool not_awaited = false;
  // On servers, while the job's members change: the task has ended for that, or the slot has just
  // got a worker, whose first task is of the next generation.
  bool ended_for_change = false;
  bool held_back = false;
  // Clock of the job's last checkpoint when its worker was first seen to leave, if the task stays
  // for the next one.
  std::optional<uint64_t> stays_after_checkpoint;
};

// Returns the facts about a job that its history needs.
HistoryOptions HistoryOptionsOf(const v1::JobRecord& record);

// A job in memory. The record is the durable part and changes only through JobTable. All else is
// lost with the process, and told again by daemons and tasks. Logic thread only.
struct Job {
  struct ShardMapCall {
    uint32_t slot = 0;
    uint64_t min_version = 0;
    absl::Duration deadline;
    Call<v1::ShardMap> call;
  };

  Job(v1::JobRecord stored, uint64_t max_log_bytes);

  const std::string& id() const { return record.job_id(); }
  // Returns the number of slots, also of those that need not have a task (JobSpec.max_workers).
  uint32_t slots() const { return MostWorkers(record.spec()); }

  // Answers the parked calls of one slot's task, or of all, with an error.
  void AnswerSlot(uint32_t slot, const absl::Status& status);
  void AnswerAll(const absl::Status& status);
  // Answers calls whose callers are gone. By all-reduce, such a caller counts as not having come.
  void DropGoneCalls();
  // Parks a call. A later call of the same slot replaces the parked one.
  void ParkRendezvous(uint32_t slot, Call<v1::RendezvousReply> call);
  void ParkEvaluation(uint32_t slot, Call<v1::ReportEvaluationReply> call);
  void ParkAdjust(uint32_t slot, Call<v1::AdjustReply> call);
  void ParkVerify(uint32_t slot, Call<v1::VerifyStepReply> call);
  void ParkCommit(const v1::CommitCheckpointRequest& request, Call<v1::CommitCheckpointReply> call);
  void ParkPart(uint32_t slot, Call<v1::CommitCheckpointReply> call);
  // Ends an evaluation, a decision or a comparison that the tasks of the round, or of a generation
  // on servers, cannot complete; its calls get CANCELLED.
  void EndGathering();
  // Forgets what the tasks of the generation that has ended told; their calls get ABORTED.
  void ForgetGeneration();

  v1::JobRecord record;
  // JobTable::version() at the record's last change, progress aside.
  uint64_t record_version = 0;
  // Serialised v1::DataPreparation: first of the weights that the job starts from, then of its own
  // checkpoints. Outside the record, which is written often. Empty: unknown, or the data need none.
  std::string data_preparation;
  std::vector<TaskState> tasks;
  ProgressTracker progress;
  Rendezvous rendezvous;
  // All-reduce only: what the tasks of the present round were told, if this process told them or it
  // is stored (StoredRound).
  std::optional<v1::RendezvousReply> open_round;
  // All-reduce only: the slots that leave after the next round, in which they hand over what nobody
  // else has (Departures).
  std::vector<uint32_t> hands_over;
  // All-reduce only: why the last round ended, as its tasks said; empty: none of its calls failed.
  std::string round_failures;
  // All-reduce only: time since which all tasks that the next round waits for are there.
  std::optional<absl::Duration> all_there_since;
  CollectiveReports collectives;
  EvaluationGatherer evaluation;
  AdjustGatherer adjusting;
  StepGatherer verifying;
  // The last evaluation that tasks were answered, and whether they were asked to keep the weights
  // (IsWorthKeeping); absent: not in this generation, or not by this process.
  struct KeptEvaluation {
    uint64_t clock = 0;
    bool keep = false;
  };
  std::optional<KeptEvaluation> kept_evaluation;
  ProgramParts program_parts;
  JobLog log;
  // Null once the job has ended; see JobTable::ReadHistory.
  std::unique_ptr<StoredHistory> history;
  std::deque<v1::JobEvent> events;
  uint64_t next_event = 0;

  // Why the job does not go on; empty: it does.
  std::string waiting_for;
  WaitReason wait_reason = WaitReason::kNothing;
  // Why the last checkpoint is not written yet; empty: nothing is late.
  std::string checkpoint_waits_for;
  // Says what the job lacks to leave a worker that is slow (SlowWorkers); empty: nothing.
  std::string leave_waits_for;
  // On servers, while the members change: the clock after which the tasks end (end_after_clock),
  // and the time since which they are told so. Absent: no change is under way.
  struct MemberChange {
    uint64_t end_after = 1;
    absl::Duration since;
  };
  std::optional<MemberChange> member_change;
  // The slots that join in the generation that takes over, until its tasks have met.
  std::vector<uint32_t> joining;
  // Servers whose return the job waits for.
  std::set<std::string> missing_servers;
  // Programs: how the last process to fail ended (its task's message, first line), by slot, if no
  // process had made a step or a checkpoint; under 0 for all slots if they are started together.
  std::map<uint32_t, std::string> early_ends;
  // Replays of the job's logs, by server.
  std::map<std::string, v1::ReplayStatus> replays;
  // After the job's end: time until which its tasks may still write to the log (see
  // JobRequests::HasLastText). Absent: the log is whole.
  std::optional<absl::Duration> log_open_until;
  // Time at which the job was seen to have ended, and whether its cuts' leftovers were removed.
  std::optional<absl::Duration> seen_ended;
  bool swept = false;
  // True once a loss that is not finite was reported, and an alert told.
  bool not_finite_told = false;
  // True while the job's checkpoints are being removed; the job is removed after them.
  bool removing = false;
  // Grows with every change that the job's status shows.
  uint64_t status_version = 1;
  // Time from which on the job takes further slots (max_workers).
  absl::Duration grows_after = -absl::InfiniteDuration();
  // Time at which progress was last stored, and whether more has come since.
  absl::Duration progress_stored;
  bool progress_unsaved = false;
  // Time at which changes of the history were last stored.
  absl::Duration history_stored;

  // Parked calls, by slot.
  std::map<uint32_t, Call<v1::RendezvousReply>> rendezvous_calls;
  std::map<uint32_t, Call<v1::ReportEvaluationReply>> evaluation_calls;
  std::map<uint32_t, Call<v1::AdjustReply>> adjust_calls;
  std::map<uint32_t, Call<v1::VerifyStepReply>> verify_calls;
  std::vector<ShardMapCall> shard_map_calls;
  // The checkpoint whose manifest is being written; one at a time.
  std::optional<v1::CommitCheckpointRequest> committing;
  // Calls that wait for a commit, and the requests they came with, by slot.
  std::map<uint32_t, Call<v1::CommitCheckpointReply>> commit_calls;
  std::map<uint32_t, v1::CommitCheckpointRequest> commit_requests;
  // Calls of a program's tasks whose parts of a checkpoint wait for others', by slot.
  std::map<uint32_t, Call<v1::CommitCheckpointReply>> part_calls;
  // Files of the last cut that was given up; they are removed and must not be committed.
  std::set<std::string> given_up_files;
  // True from the event that tells of a checkpoint which cannot be written to the next commit.
  bool told_of_failed_cut = false;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_JOB_H_
