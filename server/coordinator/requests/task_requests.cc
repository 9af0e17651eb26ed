#include "server/coordinator/requests/task_requests.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/text/utf8.h"
#include "server/coordinator/calls/report_checks.h"
#include "server/coordinator/checkpoints/best_checkpoint.h"
#include "server/coordinator/cluster/shard_map.h"
#include "server/coordinator/job/find_checkpoint.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/job/program_parts.h"
#include "server/coordinator/job/training_data.h"
#include "server/coordinator/lifecycle/early_stop.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

// Bytes that are kept of what a task says it waits for.
constexpr size_t kMostWaitBytes = 1000;

// Evaluation results kept per job; a slot that repeats clocks needs the last few.
constexpr int kMaxEvaluations = 1000;
constexpr absl::Duration kMaxShardMapWait = absl::Minutes(1);

// Describes a result for people.
std::string Describe(const v1::EvaluationResult& result) {
  if (std::isnan(result.loss())) {
    return absl::StrCat("step ", result.clock(), ": ", result.metric(), " ", result.value());
  }
  std::string loss = absl::StrCat("loss ", result.loss());
  // A program need not know the number.
  if (result.examples() > 0) absl::StrAppend(&loss, " over ", result.examples(), " examples");
  if (result.no_value().empty()) {
    return absl::StrCat("step ", result.clock(), ": ", result.metric(), " ", result.value(), ", ",
                        loss);
  }
  return absl::StrCat("step ", result.clock(), ": ", loss, "; ", result.metric(),
                      " has no value: ", result.no_value());
}

// Names a collective call alike for all of its ranks.
std::string NameOf(const v1::CollectiveRecord& call) {
  std::string name = call.operation();
  if (!call.label().empty()) absl::StrAppend(&name, " \"", call.label(), "\"");
  absl::StrAppend(&name, ", call ", call.sequence(), " of group ", call.group());
  return std::string(CutUtf8(name, kMostWaitBytes));
}

const v1::EvaluationResult* FindResult(const v1::JobRecord& record, uint64_t clock) {
  for (auto it = record.evaluations().rbegin(); it != record.evaluations().rend(); ++it) {
    if (it->clock() == clock) return &*it;
  }
  return nullptr;
}

// Checks a program's whole checkpoint by CheckServedFiles, if the job has servers.
absl::Status CheckServed(const v1::JobRecord& record, const v1::CommitCheckpointRequest& whole) {
  if (!NeedsServers(record.spec())) return absl::OkStatus();
  return CheckServedFiles(whole, record.partitions_size());
}

// Returns the same for all tasks that ask.
v1::ReportEvaluationReply ReplyOf(Job& job, const v1::EvaluationResult& result) {
  std::optional<Job::KeptEvaluation>& kept = job.kept_evaluation;
  if (!kept.has_value() || kept->clock != result.clock()) {
    kept = {.clock = result.clock(), .keep = IsWorthKeeping(result, job.record, std::nullopt)};
  }
  v1::ReportEvaluationReply reply;
  *reply.mutable_result() = result;
  const uint64_t stop = job.record.stop_clock();
  reply.set_stop(stop > 0 && stop <= result.clock());
  reply.set_keep(kept->keep);
  return reply;
}

// Removes the oldest evaluations beyond those that are kept, except for the best.
void LeaveOutOldest(v1::JobRecord& record) {
  auto& evaluations = *record.mutable_evaluations();
  while (evaluations.size() > kMaxEvaluations) {
    const int oldest = BestEvaluation(record) == &evaluations[0] ? 1 : 0;
    evaluations.erase(evaluations.begin() + oldest);
  }
}

}  // namespace

TaskRequests::TaskRequests(JobTable& jobs, JobLifecycle& lifecycle,
                           CheckpointLifecycle& checkpoints, RoundFormation& rounds,
                           CollectiveTimes& collective_times, TraceRequests& traces,
                           const Clock& clock)
    : jobs_(jobs),
      lifecycle_(lifecycle),
      checkpoints_(checkpoints),
      rounds_(rounds),
      collective_times_(collective_times),
      traces_(traces),
      clock_(clock),
      adjust_requests_(jobs),
      verify_requests_(jobs, lifecycle),
      report_interval_(jobs) {}

absl::StatusOr<Job*> TaskRequests::Authenticate(const v1::TaskIdentity& task) const {
  const Job* job = jobs_.Find(task.job_id());
  if (job != nullptr && IsFinal(job->record.state())) {
    return absl::NotFoundError(absl::StrCat("job ", task.job_id(), " has ended as ",
                                            v1::JobState_Name(job->record.state()),
                                            "; the task must end"));
  }
  return AuthenticateLast(task);
}

absl::StatusOr<Job*> TaskRequests::AuthenticateLast(const v1::TaskIdentity& task) const {
  Job* job = jobs_.Find(task.job_id());
  if (job == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("job ", task.job_id(), " is not known; the task must end"));
  }
  const v1::JobRecord& record = job->record;
  if (task.slot() >= job->slots()) {
    return absl::InvalidArgumentError(absl::StrCat("job ", task.job_id(), " has no slot ",
                                                   task.slot(), ", only ", job->slots(),
                                                   ", counted from 0"));
  }
  if (task.generation() != record.generation()) {
    return absl::AbortedError(absl::StrCat("slot ", task.slot(), " of job ", task.job_id(),
                                           " has generation ", task.generation(), ", current is ",
                                           record.generation(), "; this task is fenced"));
  }
  const uint64_t current = record.slots(task.slot()).incarnation();
  if (task.incarnation() != current) {
    return absl::AbortedError(absl::StrCat("slot ", task.slot(), " of job ", task.job_id(),
                                           " has incarnation ", task.incarnation(), ", current is ",
                                           current, "; this task is fenced"));
  }
  return job;
}

void TaskRequests::Rendezvous(const v1::RendezvousRequest& request,
                              Call<v1::RendezvousReply> call) {
  const absl::StatusOr<Job*> found = Authenticate(request.task());
  if (!found.ok()) return call.done(found.status());
  Job& job = **found;
  if (absl::Status status = CheckReport(job.record, request); !status.ok()) {
    return call.done(status);
  }
  const uint32_t slot = request.task().slot();
  if (TrainsInRounds(job.record.spec())) return rounds_.Arrive(job, request, std::move(call));
  if (absl::Status same = CompareWithJob(request, job.record); !same.ok()) {
    lifecycle_.Fail(job, std::string(same.message())).IgnoreError();
    return call.done(same);
  }
  if (job.record.has_met()) {
    absl::Status status = lifecycle_.Heard(job, slot, 0);
    if (status.ok()) status = NoteResumed(job, slot);
    return status.ok() ? call.done(MeetingReply(job.record)) : call.done(status);
  }
  if (TakesOver(job.record) && slot == SpeakingSlot(job.record) &&
      !request.has_taken_over_clock()) {
    return call.done(absl::InvalidArgumentError(absl::StrCat(
        "slot ", slot, " of job ", job.id(), " does not say at which clock generation ",
        job.record.generation(), " takes the tables over; run the same release on all workers")));
  }
  if (absl::Status status = job.rendezvous.Arrive(request); !status.ok()) {
    job.ParkRendezvous(slot, std::move(call));
    // All that wait learn why; if the failure cannot be stored, they ask again.
    for (auto& [other, parked] : std::exchange(job.rendezvous_calls, {})) parked.done(status);
    lifecycle_.Fail(job, std::string(status.message())).IgnoreError();
    return;
  }
  job.ParkRendezvous(slot, std::move(call));
  job.tasks[slot].heard = true;
  job.tasks[slot].sits_in.clear();
  ++job.status_version;
  const auto met = job.rendezvous.Met(TrainingSlots(job.record));
  if (!met.has_value()) return;
  const absl::Status stored = lifecycle_.Met(job, *met);
  for (auto& [other, parked] : std::exchange(job.rendezvous_calls, {})) {
    if (stored.ok()) {
      parked.done(MeetingReply(job.record));
    } else {
      parked.done(stored);
    }
  }
}

absl::Status TaskRequests::NoteResumed(Job& job, uint32_t slot) {
  const v1::SlotRecord& before = job.record.slots(slot);
  const v1::CheckpointRecord* last = LastSound(job.record);
  if (!RunsProgram(job.record.spec()) || last == nullptr ||
      before.resumed_clock() == last->clock()) {
    return absl::OkStatus();
  }
  JobChange change{.record = job.record};
  change.record.mutable_slots(slot)->set_resumed_clock(last->clock());
  return jobs_.Commit(job, std::move(change));
}

absl::Status TaskRequests::NoteWait(Job& job, const v1::ReportProgressRequest& request) {
  const uint32_t slot = request.task().slot();
  TaskState& task = job.tasks[slot];
  const bool told =
      task.waiting_incarnation == request.task().incarnation() && !task.waits_for.empty();
  task.waiting_incarnation = request.task().incarnation();
  task.waits_for = std::string(CutUtf8(request.waits_for(), kMostWaitBytes));
  ++job.status_version;
  // One event for the whole wait: its reason may vary from attempt to attempt.
  if (told || task.waits_for.empty()) return absl::OkStatus();
  return jobs_.AddEvent(job, absl::StrCat("slot ", slot, " waits: ", task.waits_for));
}

void TaskRequests::NoteLoss(Job& job, const v1::ReportProgressRequest& request) {
  if (std::isfinite(request.loss_sum()) || job.not_finite_told) return;
  job.not_finite_told = true;
  jobs_.Alert(job, JobAlert::Kind::kNotFinite,
              absl::StrCat("slot ", request.task().slot(), " reported the loss ",
                           request.loss_sum(), " at step ", request.clock()));
}

absl::StatusOr<v1::ReportProgressReply> TaskRequests::ReportProgress(
    const v1::ReportProgressRequest& request) {
  MUSTER_ASSIGN_OR_RETURN(Job * job, Authenticate(request.task()));
  if (request.has_waits_for()) {
    MUSTER_RETURN_IF_ERROR(NoteWait(*job, request));
    return v1::ReportProgressReply();
  }
  MUSTER_RETURN_IF_ERROR(CheckReport(job->record, request));
  NoteLoss(*job, request);
  if (job->progress.Add(request, clock_.Monotonic())) {
    job->progress_unsaved = true;
    collective_times_.Take(job->record.slots(request.task().slot()).worker_id(), request);
  }
  TaskState& task = job->tasks[request.task().slot()];
  if (request.steps() > 0) {
    task.silent_since = clock_.Monotonic();
    task.has_reported = true;
  }
  task.sits_in = request.has_call_under_way() ? NameOf(request.call_under_way()) : "";
  // The history is stored at other times than progress, so it finds out by itself what it has.
  job->history->history().AddReport(request, jobs_.NowUnixMs());
  ++job->status_version;
  MUSTER_RETURN_IF_ERROR(lifecycle_.Heard(*job, request.task().slot(), request.clock()));
  v1::ReportProgressReply reply;
  reply.set_shard_map_version(job->record.shard_map_version());
  reply.set_collectives_wanted(TrainsInRounds(job->record.spec()) &&
                               job->collectives.Wanted(request.task().slot()));
  // Without rounds, a task that is to leave is told that a first one waits.
  const bool ends =
      task.leaves && !TrainsInRounds(job->record.spec()) && !job->member_change.has_value();
  if (job->member_change.has_value()) reply.set_end_after_clock(job->member_change->end_after);
  reply.set_meet_after_round(ends ? 1 : rounds_.MeetAfter(*job));
  reply.set_lost_round(rounds_.Lost(*job));
  reply.set_report_interval_ms(absl::ToInt64Milliseconds(report_interval_.Get()));
  if (const v1::TraceOrder* order = traces_.OrderForSlot(*job, request.task().slot())) {
    *reply.mutable_trace() = *order;
  }
  return reply;
}

void TaskRequests::ReportEvaluation(const v1::ReportEvaluationRequest& request,
                                    Call<v1::ReportEvaluationReply> call) {
  const absl::StatusOr<Job*> found = Authenticate(request.task());
  if (!found.ok()) return call.done(found.status());
  Job& job = **found;
  if (absl::Status status = CheckReport(job.record, request); !status.ok()) {
    return call.done(status);
  }
  if (request.has_value()) {
    const absl::Status taken = TakeValue(job, request);
    return taken.ok() ? call.done(v1::ReportEvaluationReply()) : call.done(taken);
  }
  if (const v1::EvaluationResult* known = FindResult(job.record, request.clock())) {
    return call.done(ReplyOf(job, *known));
  }
  if (TrainsInRounds(job.record.spec()) && !RoundLasts(job.record, job.rendezvous)) {
    return call.done(absl::CancelledError(
        absl::StrCat("round ", job.record.round().number(), " of job ", job.id(),
                     " is over: meet the others again, then evaluate")));
  }
  if (!job.evaluation_calls.empty() && job.evaluation.any() &&
      job.evaluation.clock() != request.clock()) {
    const absl::Status status = absl::FailedPreconditionError(
        absl::StrCat("slot ", request.task().slot(), " evaluates at clock ", request.clock(),
                     " while others do at clock ", job.evaluation.clock()));
    return call.done(status);
  }
  job.ParkEvaluation(request.task().slot(), std::move(call));
  const absl::Status status = TakeShare(job, request);
  if (status.ok() && !job.evaluation_calls.empty()) {
    const v1::EvaluationResult* result = FindResult(job.record, request.clock());
    if (result == nullptr) return;
    const v1::ReportEvaluationReply reply = ReplyOf(job, *result);
    for (auto& [slot, parked] : std::exchange(job.evaluation_calls, {})) parked.done(reply);
    return;
  }
  for (auto& [slot, parked] : std::exchange(job.evaluation_calls, {})) parked.done(status);
  // Shares that give no result never will, but a failing disk may recover.
  if (status.code() == absl::StatusCode::kInvalidArgument) {
    lifecycle_.Fail(job, std::string(status.message())).IgnoreError();
  }
}

absl::Status TaskRequests::TakeShare(Job& job, const v1::ReportEvaluationRequest& request) {
  MUSTER_RETURN_IF_ERROR(job.evaluation.Add(request));
  if (!job.evaluation.complete(ReportingSlots(job.record))) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(v1::EvaluationResult result, job.evaluation.Result());
  MUSTER_RETURN_IF_ERROR(AddResult(job, std::move(result)));
  job.evaluation.Clear();
  return absl::OkStatus();
}

absl::Status TaskRequests::TakeValue(Job& job, const v1::ReportEvaluationRequest& request) {
  for (const v1::EvaluationResult& known : job.record.evaluations()) {
    if (known.clock() > request.clock()) return absl::OkStatus();
    if (known.clock() == request.clock() && known.metric() == request.metric()) {
      return absl::OkStatus();
    }
  }
  v1::EvaluationResult result;
  result.set_clock(request.clock());
  result.set_metric(request.metric());
  result.set_value(request.value());
  result.set_loss(request.loss_weight() == 1 ? request.loss_sum()
                                             : std::numeric_limits<double>::quiet_NaN());
  result.set_examples(request.examples());
  return AddResult(job, std::move(result));
}

absl::Status TaskRequests::AddResult(Job& job, v1::EvaluationResult result) {
  result.set_training_seconds(job.progress.training_seconds());
  JobChange change{.record = job.record};
  std::optional<uint64_t> under_way;
  if (job.kept_evaluation.has_value() && job.kept_evaluation->keep) {
    under_way = job.kept_evaluation->clock;
  }
  const bool keep = IsWorthKeeping(result, change.record, under_way);
  *change.record.add_evaluations() = result;
  LeaveOutOldest(change.record);
  std::string event = absl::StrCat(Describe(result), keep ? "; the best so far" : "");
  if (const std::string why = StopsAfter(change.record); !why.empty()) {
    change.record.set_stop_clock(result.clock());
    absl::StrAppend(&event, "; ", why);
  }
  change.events.push_back(std::move(event));
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  job.kept_evaluation = {.clock = result.clock(), .keep = keep};
  job.history->history().AddEvaluation(result, jobs_.NowUnixMs());
  return absl::OkStatus();
}

void TaskRequests::Adjust(const v1::AdjustRequest& request, Call<v1::AdjustReply> call) {
  const absl::StatusOr<Job*> found = Authenticate(request.task());
  if (!found.ok()) return call.done(found.status());
  if (absl::Status status = CheckReport((*found)->record, request); !status.ok()) {
    return call.done(status);
  }
  adjust_requests_.Adjust(**found, request, std::move(call));
}

void TaskRequests::VerifyStep(const v1::VerifyStepRequest& request,
                              Call<v1::VerifyStepReply> call) {
  const absl::StatusOr<Job*> found = Authenticate(request.task());
  if (!found.ok()) return call.done(found.status());
  if (absl::Status status = CheckReport((*found)->record, request); !status.ok()) {
    return call.done(status);
  }
  verify_requests_.Verify(**found, request, std::move(call));
}

void TaskRequests::CommitCheckpoint(const v1::CommitCheckpointRequest& request,
                                    Call<v1::CommitCheckpointReply> call) {
  const absl::StatusOr<Job*> found = Authenticate(request.task());
  if (!found.ok()) return call.done(found.status());
  if (absl::Status status = CheckNumbers(request); !status.ok()) return call.done(status);
  if (RunsProgram((*found)->record.spec())) {
    return CommitOfProgram(**found, request, std::move(call));
  }
  if (const uint32_t speaks = SpeakingSlot((*found)->record); request.task().slot() != speaks) {
    return call.done(absl::InvalidArgumentError(
        absl::StrCat("slot ", request.task().slot(), " of job ", request.task().job_id(),
                     " sent a checkpoint; slot ", speaks, " commits them")));
  }
  if (!request.failure().empty()) return checkpoints_.CutFailed(**found, request, std::move(call));
  checkpoints_.Commit(**found, request, std::move(call));
}

void TaskRequests::CommitOfProgram(Job& job, const v1::CommitCheckpointRequest& request,
                                   Call<v1::CommitCheckpointReply> call) {
  if (request.clock() == 0) {
    return call.done(
        absl::InvalidArgumentError("clock is 0; a checkpoint is of a step that was made"));
  }
  if (LastSoundClock(job.record, 0) >= request.clock()) {
    return checkpoints_.Commit(job, request, std::move(call));
  }
  if (request.program_part() == v1::CommitCheckpointRequest::WHOLE) {
    const absl::Status complete = CheckServed(job.record, request);
    return complete.ok() ? checkpoints_.Commit(job, request, std::move(call)) : call.done(complete);
  }
  if (request.program_part() != v1::CommitCheckpointRequest::PART) {
    return call.done(absl::InvalidArgumentError(
        absl::StrCat("program_part is ", static_cast<int>(request.program_part()),
                     "; the task of a program says PART or WHOLE")));
  }
  if (absl::Status added = job.program_parts.Add(request, clock_.Monotonic()); !added.ok()) {
    return call.done(added);
  }
  job.ParkPart(request.task().slot(), std::move(call));
  ++job.status_version;
  CommitParts(job);
}

void TaskRequests::CommitParts(Job& job) {
  if (!job.program_parts.any()) return;
  v1::CommitCheckpointRequest joined = job.program_parts.Joined();
  // A task may repeat its part while the parts before are being committed.
  const bool committed = LastSoundClock(job.record, 0) >= joined.clock();
  for (uint32_t slot = 0; slot < job.slots() && !committed; ++slot) {
    // Processes that have ended well have nothing to add.
    if (!job.record.slots(slot).done() && !job.program_parts.Has(slot)) return;
  }
  job.program_parts.Clear();
  const absl::Status complete = committed ? absl::OkStatus() : CheckServed(job.record, joined);
  for (auto& [slot, parked] : std::exchange(job.part_calls, {})) {
    joined.mutable_task()->set_slot(slot);
    if (complete.ok()) {
      checkpoints_.Commit(job, joined, std::move(parked));
    } else {
      parked.done(complete);
    }
  }
}

absl::StatusOr<v1::ReportCollectivesReply> TaskRequests::ReportCollectives(
    const v1::ReportCollectivesRequest& request) {
  MUSTER_ASSIGN_OR_RETURN(Job * job, AuthenticateLast(request.task()));
  job->collectives.Tell(request, jobs_.NowUnixMs());
  return v1::ReportCollectivesReply();
}

absl::StatusOr<v1::TraceReply> TaskRequests::ReportTrace(const v1::ReportTraceRequest& request) {
  MUSTER_ASSIGN_OR_RETURN(const Job* job, AuthenticateLast(request.task()));
  return traces_.TakeFromSlot(*job, request.task(), request.piece());
}

void TaskRequests::GetShardMap(const v1::GetShardMapRequest& request, Call<v1::ShardMap> call) {
  const absl::StatusOr<Job*> found = Authenticate(request.task());
  if (!found.ok()) return call.done(found.status());
  Job& job = **found;
  const absl::Duration wait = std::min(absl::Milliseconds(request.wait_ms()), kMaxShardMapWait);
  job.shard_map_calls.push_back({.slot = request.task().slot(),
                                 .min_version = request.min_version(),
                                 .deadline = clock_.Monotonic() + wait,
                                 .call = std::move(call)});
}

void TaskRequests::AnswerChanged() {
  const absl::Duration now = clock_.Monotonic();
  for (const auto& [number, job] : jobs_.jobs()) {
    job->DropGoneCalls();
    CommitParts(*job);
    std::vector<Job::ShardMapCall> waiting;
    for (Job::ShardMapCall& parked : std::exchange(job->shard_map_calls, {})) {
      if (job->record.shard_map_version() >= parked.min_version || now >= parked.deadline) {
        parked.call.done(ShardMapOf(job->record));
      } else {
        waiting.push_back(std::move(parked));
      }
    }
    job->shard_map_calls = std::move(waiting);
  }
}

}  // namespace muster
