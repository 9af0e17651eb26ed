#include "server/coordinator/lifecycle/member_changes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/left_workers.h"
#include "server/coordinator/lifecycle/recovery.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

// Time after a change before which slots do not join: what comes meanwhile joins together.
constexpr absl::Duration kPauseBeforeJoining = absl::Seconds(5);

// Returns how many steps the job makes in a second, as its slots' reports say.
double StepsPerSecond(const Job& job) {
  double most = 0;
  for (const uint32_t slot : TrainingSlots(job.record)) {
    const double seconds = job.progress.record().training_seconds(static_cast<int>(slot));
    const auto steps =
        static_cast<double>(job.progress.record().slots(static_cast<int>(slot)).steps());
    if (seconds > 0) most = std::max(most, steps / seconds);
  }
  return most;
}

bool IsLost(const Job& job, uint32_t slot) {
  return job.record.slots(static_cast<int>(slot)).worker_id().empty() || job.tasks[slot].held_back;
}

// Returns why a slot leaves that still has a worker.
std::string WhyLeaves(const Job& job, uint32_t slot) {
  const std::string& worker = job.record.slots(static_cast<int>(slot)).worker_id();
  const std::string& wanted_by = job.tasks[slot].wanted_by;
  if (!wanted_by.empty()) return absl::StrCat("job ", wanted_by, " waits for its worker ", worker);
  if (HasLeft(job.record, worker)) return absl::StrCat("the job has left its worker ", worker);
  return absl::StrCat("its worker ", worker, " was told to leave");
}

// Says what changes, for people.
std::string Describe(const Job& job, const MemberPlan& plan) {
  std::vector<std::string> parts;
  for (const uint32_t slot : plan.leaving) {
    parts.push_back(absl::StrCat("slot ", slot, " left (", WhyLeaves(job, slot), ")"));
  }
  for (const uint32_t slot : plan.lost) {
    parts.push_back(absl::StrCat("slot ", slot, " left (it has no worker, and none is free)"));
  }
  if (!plan.joining.empty()) {
    parts.push_back(absl::StrCat("slot ", absl::StrJoin(plan.joining, ", "), " joins"));
  }
  parts.push_back(absl::StrCat(plan.members.size(),
                               plan.members.size() == 1 ? " worker goes on" : " workers go on"));
  return absl::StrJoin(parts, "; ");
}

}  // namespace

absl::Status MemberChanges::Run() {
  for (const auto& [number, job] : jobs_.jobs()) {
    const v1::JobRecord& record = job->record;
    if (!IsActive(record.state()) || !MembersChangeOnServers(record.spec())) continue;
    if (record.member_slots().empty()) continue;
    MUSTER_RETURN_IF_ERROR(RunJob(*job));
  }
  return absl::OkStatus();
}

absl::Status MemberChanges::RunJob(Job& job) {
  if (job.member_change.has_value() && IsComplete(job.record)) {
    return lifecycle_.EndComplete(job);
  }
  const MemberPlan plan = PlanFor(job);
  if (!job.member_change.has_value()) {
    if (plan.change == MemberChange::kNone || !MayBegin(job, plan)) return absl::OkStatus();
    // Nothing has been made that another placement would lose.
    if (!job.record.has_met() && job.record.takes_over_generation() == 0) {
      return lifecycle_.PlaceAnew(job, Describe(job, plan));
    }
    Begin(job, plan);
  }
  HurryIfLost(job);
  const bool enough = plan.members.size() >= job.record.spec().min_workers();
  return enough && HasEnded(job) ? Complete(job, plan) : absl::OkStatus();
}

MemberPlan MemberChanges::PlanFor(const Job& job) const {
  const bool has_all = PlacedSlots(job.record) >= job.record.spec().workers();
  std::vector<SlotSituation> slots(job.slots());
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    const v1::SlotRecord& holder = job.record.slots(static_cast<int>(slot));
    const TaskState& task = job.tasks[slot];
    const bool waited =
        task.not_awaited || (task.unplaced_since.has_value() &&
                             clock_.Monotonic() - *task.unplaced_since >= elastic_wait_);
    slots[slot] = {.trains = Trains(job.record, slot),
                   .placed = !holder.worker_id().empty(),
                   .leaves = task.leaves,
                   .awaited = !has_all && !waited};
  }
  return PlanMembers(slots, job.record.spec().min_workers());
}

bool MemberChanges::MayBegin(const Job& job, const MemberPlan& plan) const {
  if (AnyDone(job.record) || IsComplete(job.record)) return false;
  if (!plan.lost.empty() || !plan.leaving.empty()) return true;
  return job.record.state() == v1::RUNNING && clock_.Monotonic() >= job.grows_after;
}

void MemberChanges::Begin(Job& job, const MemberPlan& plan) const {
  const bool planned = plan.change == MemberChange::kPlanned;
  job.member_change = {
      .end_after = planned ? EndClock(job.progress.furthest(), StepsPerSecond(job)) : 1,
      .since = clock_.Monotonic()};
  if (!planned) job.EndGathering();
  ++job.status_version;
}

void MemberChanges::HurryIfLost(Job& job) const {
  if (job.member_change->end_after == 1) return;
  const std::vector<uint32_t> slots = TrainingSlots(job.record);
  if (std::none_of(slots.begin(), slots.end(), [&](uint32_t slot) { return IsLost(job, slot); })) {
    return;
  }
  job.member_change = {.end_after = 1, .since = clock_.Monotonic()};
  job.EndGathering();
}

bool MemberChanges::HasEnded(const Job& job) const {
  // What is on its way to a checkpoint, or to another server, is of this generation.
  if (job.committing.has_value() || !job.missing_servers.empty()) return false;
  const auto copies = [](const v1::MoveRecord& move) {
    return move.state() == v1::MoveRecord::COPYING;
  };
  const auto& moves = job.record.moves();
  if (std::any_of(moves.begin(), moves.end(), copies)) return false;
  // Tasks that have yet to meet have pushed nothing.
  if (TakesOver(job.record)) return true;
  const bool overdue =
      job.member_change->end_after == 1 && clock_.Monotonic() - job.member_change->since >= lease_;
  const std::vector<uint32_t> slots = TrainingSlots(job.record);
  return overdue || std::all_of(slots.begin(), slots.end(), [&](uint32_t slot) {
           return IsLost(job, slot) || job.tasks[slot].ended_for_change;
         });
}

absl::Status MemberChanges::Complete(Job& job, const MemberPlan& plan) {
  JobChange change{.record = job.record};
  TakeOver(plan.members, change.record);
  change.events.emplace_back(Describe(job, plan));
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  job.ForgetGeneration();
  job.joining.insert(job.joining.end(), plan.joining.begin(), plan.joining.end());
  std::erase_if(job.joining, [&](uint32_t slot) { return !Trains(job.record, slot); });
  for (TaskState& task : job.tasks) {
    task = TaskState{.not_before = task.not_before, .unplaced_since = task.unplaced_since};
  }
  job.grows_after = std::max(job.grows_after, clock_.Monotonic() + kPauseBeforeJoining);
  return absl::OkStatus();
}

}  // namespace muster
