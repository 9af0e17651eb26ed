#include "server/coordinator/checkpoints/checkpoint_lifecycle.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/status_macros.h"
#include "server/coordinator/checkpoints/best_checkpoint.h"
#include "server/coordinator/job/find_checkpoint.h"
#include "server/coordinator/job/job_state_machine.h"

namespace muster {

namespace {

// Returns text for an event that names the checkpoints missing between the last one (or the
// generation's beginning) and `clock`; empty if none is. The job's log says why each was given up.
std::string GivenUpBefore(uint64_t clock, const v1::JobRecord& record) {
  const uint64_t every = record.spec().checkpoint().every_steps();
  if (every == 0) return "";
  const uint64_t last = std::max<uint64_t>(LastSoundClock(record, 0), record.start_clock());
  if (clock <= last) return "";
  const uint64_t missing = (clock - 1) / every - last / every;
  if (missing == 0) return "";
  const uint64_t first = last / every * every + every;
  if (missing == 1) return absl::StrCat("; that at ", first, " was given up, see the log");
  return absl::StrCat("; ", missing, " from that at ", first, " to that at ",
                      (clock - 1) / every * every, " were given up, see the log");
}

const v1::CheckpointRecord* FindAt(uint64_t clock, const v1::JobRecord& record) {
  for (const v1::CheckpointRecord& checkpoint : record.checkpoints()) {
    if (checkpoint.clock() == clock) return &checkpoint;
  }
  return nullptr;
}

// Returns whether a program's process went on from the checkpoint of this clock, and may read it.
bool IsRead(const v1::JobRecord& record, uint64_t clock) {
  return std::any_of(record.slots().begin(), record.slots().end(), [&](const auto& slot) {
    return !slot.done() && slot.has_resumed_clock() && slot.resumed_clock() == clock;
  });
}

// Checks that a request about a checkpoint that is committed repeats what it was made of.
absl::Status CheckRepeats(const v1::CheckpointRecord& known,
                          const v1::CommitCheckpointRequest& request) {
  const bool whole = request.program_part() == v1::CommitCheckpointRequest::WHOLE;
  if (whole == known.has_whole_of_slot() &&
      (!whole || known.whole_of_slot() == request.task().slot())) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "step ", known.clock(), " has a checkpoint already, ",
      known.has_whole_of_slot() ? absl::StrCat("which slot ", known.whole_of_slot(), " made whole")
                                : "of all slots together",
      "; make whole checkpoints on one rank alone, or all ranks' together, without whole"));
}

// Returns whether both requests name the same files.
bool SameCut(const v1::CommitCheckpointRequest& a, const v1::CommitCheckpointRequest& b) {
  return a.task().generation() == b.task().generation() && a.clock() == b.clock() &&
         std::equal(a.files().begin(), a.files().end(), b.files().begin(), b.files().end(),
                    [](const v1::CutFile& one, const v1::CutFile& other) {
                      return one.path() == other.path() && one.checksum() == other.checksum();
                    });
}

// Inserts a checkpoint in order of clocks, replacing a damaged one of its clock.
void Insert(v1::CheckpointRecord added, v1::JobRecord& record) {
  const uint64_t clock = added.clock();
  auto& checkpoints = *record.mutable_checkpoints();
  int at = 0;
  while (at < checkpoints.size() && checkpoints[at].clock() < clock) ++at;
  if (at < checkpoints.size() && checkpoints[at].clock() == clock) {
    checkpoints[at] = std::move(added);
    return;
  }
  *checkpoints.Add() = std::move(added);
  for (int i = checkpoints.size() - 1; i > at; --i) checkpoints.SwapElements(i, i - 1);
}

}  // namespace

CheckpointLifecycle::CheckpointLifecycle(JobTable& jobs, CheckpointArchive& archive,
                                         SerialExecutor& logic, SerialExecutor& disk,
                                         const Clock& clock, CoordinatorMetrics& metrics,
                                         absl::Duration lease)
    : jobs_(jobs),
      archive_(archive),
      logic_(logic),
      disk_(disk),
      clock_(clock),
      metrics_(metrics),
      lease_(lease) {}

void CheckpointLifecycle::Commit(Job& job, const v1::CommitCheckpointRequest& request,
                                 Call<v1::CommitCheckpointReply> call) {
  const uint64_t last = LastSoundClock(job.record, 0);
  // A damaged checkpoint is taken anew when the job comes to its clock again.
  if (const v1::CheckpointRecord* known = FindAt(request.clock(), job.record);
      known != nullptr && IsSound(job.record, *known)) {
    if (absl::Status other = CheckRepeats(*known, request); other.ok()) {
      call.done(v1::CommitCheckpointReply());
    } else {
      call.done(other);
    }
    // The request may bring another cut of that clock, which came too late.
    return RemoveLeftovers(job, last);
  }
  if (request.clock() < last) {
    call.done(absl::InvalidArgumentError(absl::StrCat("checkpoint of job ", job.id(), " at clock ",
                                                      request.clock(),
                                                      " comes after that at clock ", last)));
    return;
  }
  if (const uint64_t total = job.record.met().total_steps();
      job.record.has_met() && total > 0 && request.clock() > total) {
    call.done(absl::InvalidArgumentError(absl::StrCat("checkpoint of job ", job.id(), " at clock ",
                                                      request.clock(), " is beyond its last step, ",
                                                      total)));
    return;
  }
  for (const v1::CutFile& file : request.files()) {
    if (!job.given_up_files.contains(file.path())) continue;
    // A replacement task may repeat the cut that the task before gave up.
    call.done(absl::FailedPreconditionError(
        absl::StrCat("checkpoint of job ", job.id(), " at clock ", request.clock(), " names ",
                     file.path(), ", which was given up before; take the next one whole")));
    return;
  }
  job.ParkCommit(request, std::move(call));
  if (!job.committing.has_value()) Complete(job, request);
}

void CheckpointLifecycle::Complete(Job& job, const v1::CommitCheckpointRequest& request) {
  job.committing = request;
  disk_.Post([this, request = request, began = clock_.Monotonic()]() mutable {
    auto completed =
        CatchOutOfMemory("the call", [&] { return archive_.Complete(request, clock_.Wall()); });
    request.set_seconds(request.seconds() + absl::ToDoubleSeconds(clock_.Monotonic() - began));
    logic_.Post([this, request = std::move(request), completed = std::move(completed)]() mutable {
      Completed(request, std::move(completed));
    });
  });
}

void CheckpointLifecycle::Completed(const v1::CommitCheckpointRequest& request,
                                    absl::StatusOr<CompletedCheckpoint> completed) {
  Job* job = jobs_.Find(request.task().job_id());
  if (job == nullptr) return;
  job->committing.reset();
  const uint64_t generation = job->record.generation();
  // Otherwise the calls were answered when the job ended or began another generation.
  if (IsActive(job->record.state()) && generation == request.task().generation()) {
    std::vector<std::string> dropped;
    const absl::Status status =
        completed.ok() ? Record(*job, request, *completed, dropped) : completed.status();
    for (auto it = job->commit_calls.begin(); it != job->commit_calls.end();) {
      if (!SameCut(job->commit_requests[it->first], request)) {
        ++it;
        continue;
      }
      if (status.ok()) {
        it->second.done(v1::CommitCheckpointReply());
      } else {
        it->second.done(status);
      }
      it = job->commit_calls.erase(it);
    }
    // A folder that cannot be removed now is removed with the job.
    disk_.Post([this, dropped] {
      for (const std::string& uri : dropped) archive_.RemoveCheckpoint(uri).IgnoreError();
    });
    if (status.ok()) RemoveLeftovers(*job, request.clock());
  }
  // The calls that are left wait for another commit, perhaps of a clock committed now.
  for (auto& [slot, parked] : std::exchange(job->commit_calls, {})) {
    Commit(*job, v1::CommitCheckpointRequest(job->commit_requests[slot]), std::move(parked));
  }
}

void CheckpointLifecycle::CutFailed(Job& job, const v1::CommitCheckpointRequest& request,
                                    Call<v1::CommitCheckpointReply> call) {
  if (request.tried_again()) {
    job.checkpoint_waits_for =
        absl::StrCat("its last checkpoint, at step ", request.clock(),
                     ", which cannot be written and is tried again: ", request.failure());
    ++job.status_version;
    TellOfFailedCut(job,
                    absl::StrCat("the last checkpoint, at clock ", request.clock(),
                                 ", cannot be written and is tried again: ", request.failure()));
    return call.done(v1::CommitCheckpointReply());
  }
  // Files of a committed clock may belong to its checkpoint.
  if (FindAt(request.clock(), job.record) != nullptr) {
    return call.done(v1::CommitCheckpointReply());
  }
  TellOfFailedCut(job, absl::StrCat("checkpoint at clock ", request.clock(),
                                    " is given up: ", request.failure()));
  std::vector<std::string> files;
  for (const v1::CutFile& file : request.files()) {
    if (!file.path().empty()) files.push_back(file.path());
  }
  job.given_up_files = {files.begin(), files.end()};
  disk_.Post([this, job_id = job.id(), clock = request.clock(), files = std::move(files),
              call = std::move(call)] {
    // A file that cannot be removed now is removed with later leftovers.
    archive_.RemoveFiles(job_id, clock, files).IgnoreError();
    call.done(v1::CommitCheckpointReply());
  });
}

void CheckpointLifecycle::TellOfFailedCut(Job& job, const std::string& event) {
  if (job.told_of_failed_cut) return;
  // What cannot be stored now, perhaps on the same full disk, is told with the next failure.
  job.told_of_failed_cut = jobs_.AddEvent(job, event).ok();
}

void CheckpointLifecycle::SweepEnded() {
  const absl::Duration now = clock_.Monotonic();
  bool any_ended = false;
  for (const auto& [number, job] : jobs_.jobs()) {
    if (job->swept || job->removing || !IsFinal(job->record.state())) continue;
    if (!job->seen_ended.has_value()) {
      job->seen_ended = now;
      any_ended = true;
    }
    if (now - *job->seen_ended < lease_) continue;
    job->swept = true;
    RemoveLeftovers(*job, std::numeric_limits<uint64_t>::max());
  }
  if (!any_ended) return;
  // What an ended job went on from itself, and what others that ended began with.
  for (const auto& [number, job] : jobs_.jobs()) {
    if (IsFinal(job->record.state())) DropSuperseded(*job);
  }
}

void CheckpointLifecycle::RemoveLeftovers(const Job& job, uint64_t reached) {
  LeftoverLimits limits{.kept = {}, .reached = reached, .generation = job.record.generation()};
  for (const v1::CheckpointRecord& checkpoint : job.record.checkpoints()) {
    limits.kept.insert(checkpoint.clock());
  }
  disk_.Post([this, job_id = job.id(), limits = std::move(limits)] {
    archive_.RemoveLeftovers(job_id, limits).IgnoreError();
  });
}

absl::Status CheckpointLifecycle::Record(Job& job, const v1::CommitCheckpointRequest& request,
                                         const CompletedCheckpoint& completed,
                                         std::vector<std::string>& dropped) {
  const uint64_t clock = request.clock();
  JobChange change{.record = job.record, .data_preparation = request.data_preparation()};
  const std::string given_up = GivenUpBefore(clock, job.record);
  v1::CheckpointRecord added;
  added.set_clock(clock);
  added.set_uri(completed.folder);
  added.set_unix_ms(jobs_.NowUnixMs());
  added.set_seconds(request.seconds());
  if (request.program_part() == v1::CommitCheckpointRequest::WHOLE) {
    added.set_whole_of_slot(request.task().slot());
  }
  if (completed.base_clock.has_value()) added.set_base_clock(*completed.base_clock);
  Insert(std::move(added), change.record);
  if (const uint64_t base = completed.base_clock.value_or(0);
      completed.base_clock.has_value() && !IsSound(change.record, *FindAt(clock, change.record))) {
    dropped.push_back(completed.folder);
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint of job ", job.id(), " at clock ", clock, " goes on from that at clock ", base,
        ", which is not kept any more, or damaged; take the next one whole"));
  }
  // Removed only after the store has the new record.
  std::vector<std::string> superseded = TakeSuperseded(job, change.record);
  change.events.emplace_back(
      absl::StrCat(completed.base_clock.has_value()
                       ? absl::StrCat("checkpoint at clock ", clock, ", a delta on that at ",
                                      *completed.base_clock)
                       : absl::StrCat("checkpoint at clock ", clock),
                   given_up),
      v1::JobEvent::CHECKPOINT);
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  job.checkpoint_waits_for.clear();
  job.told_of_failed_cut = false;
  dropped = std::move(superseded);
  metrics_.checkpoints.Increment();
  return absl::OkStatus();
}

std::vector<std::string> CheckpointLifecycle::TakeSuperseded(const Job& job,
                                                             v1::JobRecord& record) const {
  std::vector<std::string> superseded;
  uint32_t sound = 0;
  std::set<uint64_t> bases;
  const v1::EvaluationResult* const best = BestEvaluation(record);
  auto& checkpoints = *record.mutable_checkpoints();
  // Newest first, so that a delta is seen before its base.
  for (int i = checkpoints.size() - 1; i >= 0; --i) {
    const v1::CheckpointRecord& checkpoint = checkpoints[i];
    const bool among_the_last = sound < record.spec().checkpoint().keep();
    sound += IsSound(record, checkpoint);
    // A generation may read its starting point until it ends.
    const bool is_read = IsActive(record.state()) && (checkpoint.uri() == record.restore_uri() ||
                                                      IsRead(record, checkpoint.clock()));
    const bool is_best = best != nullptr && best->clock() == checkpoint.clock();
    const bool kept = among_the_last || is_best || bases.contains(checkpoint.clock()) || is_read ||
                      NeededBy(job, checkpoint.uri()) != nullptr;
    if (!kept) {
      superseded.push_back(checkpoint.uri());
      checkpoints.erase(checkpoints.begin() + i);
    } else if (checkpoint.has_base_clock()) {
      bases.insert(checkpoint.base_clock());
    }
  }
  return superseded;
}

void CheckpointLifecycle::DropSuperseded(Job& job) {
  if (job.removing || static_cast<uint32_t>(job.record.checkpoints_size()) <=
                          job.record.spec().checkpoint().keep()) {
    return;
  }
  JobChange change{.record = job.record};
  std::vector<std::string> superseded = TakeSuperseded(job, change.record);
  // What cannot be stored now is tried again when another job ends.
  if (superseded.empty() || !jobs_.Commit(job, std::move(change)).ok()) return;
  disk_.Post([this, superseded = std::move(superseded)] {
    for (const std::string& uri : superseded) archive_.RemoveCheckpoint(uri).IgnoreError();
  });
}

const Job* CheckpointLifecycle::NeededBy(const Job& job, const std::string& uri) const {
  for (const auto& [number, other] : jobs_.jobs()) {
    if (other.get() != &job && !IsFinal(other->record.state()) &&
        other->record.initial_uri() == uri) {
      return other.get();
    }
  }
  return nullptr;
}

absl::Status CheckpointLifecycle::CheckUnneeded(const Job& job, const std::string& uri) const {
  if (IsActive(job.record.state()) &&
      (uri == job.record.restore_uri() ||
       (LastSound(job.record) != nullptr && uri == LastSound(job.record)->uri()))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job.id(), " is ", v1::JobState_Name(job.record.state()), " and goes back to ", uri,
        " if it must; wait for its next checkpoint, or cancel it first"));
  }
  if (const Job* other = NeededBy(job, uri)) {
    return absl::FailedPreconditionError(absl::StrCat("job ", other->id(), " starts from ", uri,
                                                      "; delete that when the job has ended"));
  }
  return absl::OkStatus();
}

absl::Status CheckpointLifecycle::CheckRemovable(const Job& job) const {
  if (!IsFinal(job.record.state())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job.id(), " is ", v1::JobState_Name(job.record.state()), "; cancel it first"));
  }
  for (const v1::CheckpointRecord& checkpoint : job.record.checkpoints()) {
    if (const Job* other = NeededBy(job, checkpoint.uri())) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", other->id(), " starts from a checkpoint of job ", job.id(),
                       "; delete it when that one has ended"));
    }
  }
  return absl::OkStatus();
}

void CheckpointLifecycle::RemoveJob(Job& job, std::function<void(absl::Status)> done) {
  // Other jobs cannot start from this one any more. Its files are removed first: a crash in between
  // leaves a job that can be deleted again, not files that nobody knows of.
  job.removing = true;
  disk_.Post([this, id = job.id(), done = std::move(done)]() mutable {
    absl::Status removed = archive_.RemoveJob(id);
    logic_.Post(
        [this, id = std::move(id), removed = std::move(removed), done = std::move(done)]() mutable {
          Job* job = jobs_.Find(id);
          if (job != nullptr) {
            job->removing = false;
            if (removed.ok()) removed = jobs_.Remove(*job);
          }
          if (done != nullptr) done(removed);
        });
  });
}

}  // namespace muster
