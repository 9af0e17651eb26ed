#include "server/coordinator/lifecycle/stall_watch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/recovery.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

// Returns the clock that a slot on servers must have closed, or others wait for it: they are
// further ahead than they may be, or done.
uint64_t AwaitedClock(const Job& job) {
  const v1::JobRecord& record = job.record;
  const uint64_t at_end = AnyDone(record) ? FinalClock(record) : 0;
  const v1::UpdateSpec& update = record.spec().update();
  if (update.unlimited_staleness()) return at_end;
  const uint64_t furthest = job.progress.furthest();
  return std::max(at_end, furthest - std::min<uint64_t>(furthest, update.staleness_bound()));
}

// Returns whether others evaluate, ask what is decided or have a step compared, and only wait for
// slots such as this one to do the same.
bool OwesItsShare(const Job& job, uint32_t slot) {
  const bool takes_part = job.record.round().number() == 0 || IsMember(job.record, slot);
  const auto others_wait = [slot](const auto& calls) {
    return !calls.empty() && !calls.contains(slot);
  };
  return takes_part && (others_wait(job.evaluation_calls) || others_wait(job.adjust_calls) ||
                        others_wait(job.verify_calls));
}

// Returns whether others wait with their parts of a program's checkpoint.
bool OwesItsPart(const Job& job, uint32_t slot) {
  return job.program_parts.any() && !job.record.slots(slot).done() && !job.program_parts.Has(slot);
}

// Returns whether some left their call because it did not end in time or, in a hybrid job, for any
// reason. Members of the round that have not come are overdue then: they may wait on a server for a
// clock that the others no longer close.
bool AnyLeftTheirCall(const Job& job) {
  return job.rendezvous.AnyLate() || (IsHybrid(job.record.spec()) && job.rendezvous.any());
}

// Returns how long the processes of a program that runs may report nothing; 0: for ever, or none
// runs.
absl::Duration SilenceLimit(const Job& job) {
  if (!RunsProgram(job.record.spec()) || !job.record.has_met()) return absl::ZeroDuration();
  return absl::Seconds(job.record.spec().model().program().report_within_seconds());
}

// Returns the slots whose processes have reported no further step for as long as `limit`: of those
// that report, or of all if none does. Of several, only those with the fewest steps: the others may
// wait for them.
std::vector<uint32_t> FindSilent(Job& job, absl::Duration limit, absl::Duration now) {
  const auto runs = [&](uint32_t slot) {
    const v1::SlotRecord& holder = job.record.slots(slot);
    return !holder.done() && !holder.worker_id().empty() && job.tasks[slot].heard;
  };
  bool any_reports = false;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    if (!runs(slot)) continue;
    if (!job.tasks[slot].silent_since.has_value()) job.tasks[slot].silent_since = now;
    any_reports |= job.tasks[slot].has_reported;
  }
  std::vector<uint32_t> silent;
  uint64_t fewest = 0;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    const TaskState& task = job.tasks[slot];
    if (!runs(slot) || task.has_reported != any_reports) continue;
    if (now - *task.silent_since < limit) continue;
    const uint64_t clock = job.progress.clock(slot);
    if (silent.empty() || clock < fewest) silent.clear();
    if (silent.empty()) fewest = clock;
    if (clock == fewest) silent.push_back(slot);
  }
  return silent;
}

}  // namespace

std::vector<uint32_t> AwaitedSlots(const Job& job) {
  const v1::JobRecord& record = job.record;
  const bool on_servers = !TrainsByAllReduce(record.spec()) && record.has_met();
  // These look at all slots, so they are found once for all.
  const uint64_t awaited_clock = on_servers ? AwaitedClock(job) : 0;
  const bool meets = job.rendezvous.any() && (!on_servers || TrainsInRounds(record.spec()));
  const bool round_lasts = meets && RoundLasts(record, job.rendezvous);
  // The next members wait until all have ended.
  const bool any_ended = std::any_of(job.tasks.begin(), job.tasks.end(),
                                     [](const TaskState& task) { return task.ended_for_change; });
  const auto is_awaited = [&](uint32_t slot) {
    if (record.slots(slot).done() || record.slots(slot).worker_id().empty()) return false;
    const TaskState& task = job.tasks[slot];
    if (!Trains(record, slot) || task.held_back || task.ended_for_change) return false;
    if (any_ended) return true;
    if (OwesItsPart(job, slot)) return true;
    if (!job.missing_servers.empty()) return false;
    if (OwesItsShare(job, slot)) return true;
    // Only a program knows how far its processes may be apart.
    if (on_servers && RunsProgram(record.spec())) return false;
    if (job.progress.clock(slot) < awaited_clock) return true;
    if (!meets || job.rendezvous.Has(slot)) return false;
    // Newcomers wait until the others have ended their step, however long that takes.
    return !IsMember(record, slot) || !round_lasts;
  };
  std::vector<uint32_t> slots;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    if (is_awaited(slot)) slots.push_back(slot);
  }
  return slots;
}

std::vector<uint32_t> AwaitedFor(absl::Duration time, absl::Duration now, const Job& job) {
  const auto is_noted = [&](const TaskState& task) {
    return task.awaited.has_value() && now - task.awaited->since >= time;
  };
  // Nobody is, as a rule.
  if (std::none_of(job.tasks.begin(), job.tasks.end(), is_noted)) return {};
  std::vector<uint32_t> slots = AwaitedSlots(job);
  std::erase_if(slots, [&](uint32_t slot) { return !is_noted(job.tasks[slot]); });
  return slots;
}

StallWatch::StallWatch(JobTable& jobs, JobLifecycle& lifecycle, const Clock& clock,
                       absl::Duration lease, absl::Duration stall_timeout)
    : jobs_(jobs),
      lifecycle_(lifecycle),
      clock_(clock),
      lease_(lease),
      stall_timeout_(stall_timeout) {}

absl::Status StallWatch::Look() {
  for (const auto& [number, job] : jobs_.jobs()) {
    if (IsActive(job->record.state())) MUSTER_RETURN_IF_ERROR(LookAt(*job));
  }
  return absl::OkStatus();
}

absl::Status StallWatch::LookAt(Job& job) {
  if (job.program_parts.any() && clock_.Monotonic() - job.program_parts.since() >= stall_timeout_) {
    GiveUpParts(job);
  }
  if (const absl::Duration limit = SilenceLimit(job); limit > absl::ZeroDuration()) {
    const std::vector<uint32_t> silent = FindSilent(job, limit, clock_.Monotonic());
    if (!silent.empty()) return EndSilent(job, silent, limit);
  }
  const bool any_left = AnyLeftTheirCall(job);
  for (const uint32_t slot : AwaitedSlots(job)) {
    const bool overdue = any_left && IsMember(job.record, slot);
    if (TimeLeft(job, slot, overdue) > absl::ZeroDuration()) continue;
    if (OwesItsPart(job, slot)) continue;
    // The job may have changed as a whole: the other slots are looked at next time.
    const bool late = job.tasks[slot].awaited->overdue && job.rendezvous.AnyLate();
    const absl::Duration waited = clock_.Monotonic() - job.tasks[slot].awaited->since;
    return lifecycle_.TaskStalled(job, slot, late ? waited + stall_timeout_ : waited);
  }
  return absl::OkStatus();
}

void StallWatch::GiveUpParts(Job& job) {
  std::vector<uint32_t> missing;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    if (OwesItsPart(job, slot)) missing.push_back(slot);
  }
  const absl::Status status = absl::FailedPreconditionError(absl::StrCat(
      "the checkpoint at step ", job.program_parts.clock(), " is given up: after ",
      absl::FormatDuration(stall_timeout_),
      " (--stall-timeout-ms) it still lacks the part of slot ", absl::StrJoin(missing, ", "),
      "; every process has to commit the same steps, or one of them the whole checkpoint"));
  // If it cannot be stored, those that wait are told all the same.
  jobs_.AddEvent(job, std::string(status.message())).IgnoreError();
  job.program_parts.GiveUp();
  for (auto& [slot, parked] : std::exchange(job.part_calls, {})) parked.done(status);
}

absl::Status StallWatch::EndSilent(Job& job, const std::vector<uint32_t>& silent,
                                   absl::Duration limit) {
  const uint32_t slot = silent.front();
  std::string why =
      absl::StrCat("is stuck at step ", job.progress.clock(slot),
                   ": its program has reported no further step for ", absl::FormatDuration(limit),
                   " (model.program.report_within_seconds)");
  for (const uint32_t also : silent) {
    const TaskState& task = job.tasks[also];
    if (also != slot) absl::StrAppend(&why, "; nor has that of slot ", also);
    if (!task.waits_for.empty()) absl::StrAppend(&why, ": ", task.waits_for);
  }
  return lifecycle_.ProgramSilent(job, slot, why);
}

absl::Duration StallWatch::TimeLeft(Job& job, uint32_t slot, bool overdue) {
  const absl::Duration now = clock_.Monotonic();
  const TaskState::Awaited present = {.since = now,
                                      .clock = job.progress.clock(slot),
                                      .round = job.record.round().number(),
                                      .overdue = overdue};
  std::optional<TaskState::Awaited>& noted = job.tasks[slot].awaited;
  // Between a call and its repetition a slot does not seem awaited.
  const bool goes_on = noted.has_value() && now - noted->seen <= lease_ &&
                       noted->clock == present.clock && noted->round == present.round &&
                       noted->overdue == present.overdue;
  if (!goes_on) noted = present;
  noted->seen = now;
  return noted->since + (noted->overdue ? lease_ : stall_timeout_) - now;
}

void StallWatch::Excuse(absl::Duration pause) {
  for (const auto& [number, job] : jobs_.jobs()) {
    job->program_parts.Excuse(pause);
    for (TaskState& task : job->tasks) {
      if (task.silent_since.has_value()) *task.silent_since += pause;
      if (!task.awaited.has_value()) continue;
      task.awaited->since += pause;
      task.awaited->seen += pause;
    }
  }
}

}  // namespace muster
