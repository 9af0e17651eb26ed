#include "server/coordinator/scheduling/departures.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "server/coordinator/job/find_checkpoint.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

// Returns whether all tasks of the job's round that are left have come to meet again.
bool RoundHasMet(const Job& job) {
  const auto& members = job.record.round().members();
  return std::all_of(members.begin(), members.end(), [&](const v1::RoundMember& member) {
    return !IsMember(job.record, member.slot()) || job.rendezvous.Has(member.slot());
  });
}

}  // namespace

absl::Status Departures::Run() {
  bool any_leaves = false, all_leave = true;
  for (const auto& [id, member] : members_.members()) {
    if (!member.live || member.kind() != v1::WORKER) continue;
    any_leaves = any_leaves || member.leaves;
    all_leave = all_leave && member.leaves;
  }
  for (const auto& [number, job] : jobs_.jobs()) {
    if (!IsActive(job->record.state()) || RunsProgram(job->record.spec())) continue;
    const bool lends = job->slots() > job->record.spec().workers();
    if (!any_leaves && !lends) continue;
    std::vector<uint32_t> slots = LeavingSlots(*job);
    for (TaskState& task : job->tasks) task.leaves = false;
    if (!all_leave) std::erase_if(slots, [&](uint32_t slot) { return !MayGo(*job, slot); });
    if (!slots.empty()) MUSTER_RETURN_IF_ERROR(lifecycle_.SlotsLeave(*job, slots));
  }
  return absl::OkStatus();
}

std::vector<uint32_t> Departures::LeavingSlots(const Job& job) const {
  const v1::JobRecord& record = job.record;
  std::vector<uint32_t> slots;
  for (int slot = 0; slot < record.slots_size(); ++slot) {
    const v1::SlotRecord& holder = record.slots(slot);
    if (holder.done() || !members_.Holds(holder.worker_id(), holder.worker_incarnation())) continue;
    const bool wanted = !job.tasks[slot].wanted_by.empty();
    if (wanted || members_.Find(holder.worker_id())->leaves) slots.push_back(slot);
  }
  return slots;
}

bool Departures::MayGo(Job& job, uint32_t slot) const {
  TaskState& task = job.tasks[slot];
  if (EndsGeneration(job.record, {slot})) {
    const uint64_t kept = LastSoundClock(job.record, job.record.start_clock());
    if (!task.stays_after_checkpoint.has_value()) task.stays_after_checkpoint = kept;
    return kept > *task.stays_after_checkpoint;
  }
  if (TrainsInRounds(job.record.spec())) {
    if (!IsMember(job.record, slot)) return true;
    task.leaves = true;
    return RoundHasMet(job);
  }
  task.leaves = job.record.has_met() && task.heard;
  return !task.leaves;
}

}  // namespace muster
