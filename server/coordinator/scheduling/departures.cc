#include "server/coordinator/scheduling/departures.h"

#include <algorithm>
#include <optional>
#include <set>

#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "server/coordinator/job/find_checkpoint.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/left_workers.h"
#include "server/coordinator/lifecycle/round_record.h"
#include "server/coordinator/scheduling/elastic_slots.h"

namespace muster {
namespace {

// Most rounds in a row without a step after which slots still try to hand over what they have.
constexpr uint32_t kMostMeetings = 4;

// Returns whether all tasks of the job's round that are left have come to meet again.
bool RoundHasMet(const Job& job) {
  const auto& members = job.record.round().members();
  return std::all_of(members.begin(), members.end(), [&](const v1::RoundMember& member) {
    return !IsMember(job.record, member.slot()) || job.rendezvous.Has(member.slot());
  });
}

// Returns the slots of all groups of which one of `slots` is: the others of such a group leave the
// round, too.
std::vector<uint32_t> WholeGroups(const v1::JobSpec& spec, const std::vector<uint32_t>& slots) {
  const uint32_t group = GroupOf(spec);
  std::set<uint32_t> all;
  for (const uint32_t slot : slots) {
    for (uint32_t i = 0; i < group; ++i) all.insert(slot / group * group + i);
  }
  return {all.begin(), all.end()};
}

// Returns whether the slots, which are of whole groups, can hand over what they alone have. Only
// jobs with min_workers have the memory for that, unless it is to be on disk. A job to which it
// happened that nothing came of it is left alone.
bool CanHandOver(const v1::JobRecord& record, const std::vector<uint32_t>& slots) {
  const v1::RoundRecord& round = record.round();
  return record.spec().min_workers() > 0 && !OffloadsOptimizerState(record.spec()) &&
         !AnyDone(record) && round.meetings() <= kMostMeetings &&
         slots.size() < static_cast<size_t>(round.members_size());
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
    if (!any_leaves && !lends && job->record.left_workers().empty()) continue;
    std::vector<uint32_t> slots = LeavingSlots(*job);
    for (TaskState& task : job->tasks) task.leaves = false;
    job->hands_over.clear();
    if (slots.empty()) continue;
    MUSTER_RETURN_IF_ERROR(all_leave
                               ? lifecycle_.SlotsLeave(*job, slots, JobLifecycle::HandedOver::kNo)
                           : TrainsInRounds(job->record.spec()) ? LeaveRound(*job, slots)
                                                                : Leave(*job, slots));
  }
  return absl::OkStatus();
}

std::vector<uint32_t> Departures::LeavingSlots(const Job& job) const {
  const v1::JobRecord& record = job.record;
  std::vector<uint32_t> slots;
  for (int slot = 0; slot < record.slots_size(); ++slot) {
    const v1::SlotRecord& holder = record.slots(slot);
    if (holder.done() || !members_.Holds(holder.worker_id(), holder.worker_incarnation())) continue;
    const bool goes = !job.tasks[slot].wanted_by.empty() || HasLeft(record, holder.worker_id()) ||
                      members_.Find(holder.worker_id())->leaves;
    if (goes) slots.push_back(slot);
  }
  return slots;
}

absl::Status Departures::LeaveAfterCheckpoint(Job& job, const std::vector<uint32_t>& slots) {
  const uint64_t kept = LastSoundClock(job.record, job.record.start_clock());
  std::vector<uint32_t> go;
  for (const uint32_t slot : slots) {
    std::optional<uint64_t>& stays = job.tasks[slot].stays_after_checkpoint;
    if (!stays.has_value()) stays = kept;
    if (kept > *stays) go.push_back(slot);
  }
  return go.empty() ? absl::OkStatus()
                    : lifecycle_.SlotsLeave(job, go, JobLifecycle::HandedOver::kNo);
}

absl::Status Departures::Leave(Job& job, const std::vector<uint32_t>& slots) {
  if (EndsGeneration(job.record, slots)) return LeaveAfterCheckpoint(job, slots);
  std::vector<uint32_t> idle;
  for (const uint32_t slot : slots) {
    TaskState& task = job.tasks[slot];
    task.leaves = job.record.has_met() && task.heard;
    if (!task.leaves) idle.push_back(slot);
  }
  return idle.empty() ? absl::OkStatus()
                      : lifecycle_.SlotsLeave(job, idle, JobLifecycle::HandedOver::kNo);
}

absl::Status Departures::LeaveRound(Job& job, std::vector<uint32_t> slots) {
  std::vector<uint32_t> outside = slots;
  std::erase_if(outside, [&](uint32_t slot) { return IsMember(job.record, slot); });
  std::erase_if(slots, [&](uint32_t slot) { return !IsMember(job.record, slot); });
  if (!outside.empty()) {
    MUSTER_RETURN_IF_ERROR(lifecycle_.SlotsLeave(job, outside, JobLifecycle::HandedOver::kNo));
  }
  if (slots.empty()) return absl::OkStatus();
  const v1::JobSpec& spec = job.record.spec();
  const std::vector<uint32_t> groups = WholeGroups(spec, slots);
  const bool can_hand_over = CanHandOver(job.record, groups);
  if (!can_hand_over && EndsGeneration(job.record, slots)) return LeaveAfterCheckpoint(job, slots);
  for (const uint32_t slot : slots) job.tasks[slot].leaves = true;
  if (!RoundHasMet(job)) return absl::OkStatus();
  const auto ranks = static_cast<uint32_t>(job.rendezvous.CountParticipants());
  if (!TrainsByAllReduce(spec) || job.rendezvous.CanSpare(groups, MeshOf(spec, ranks))) {
    return lifecycle_.SlotsLeave(job, slots, JobLifecycle::HandedOver::kYes);
  }
  if (!can_hand_over) {
    return lifecycle_.SlotsLeave(job, slots, JobLifecycle::HandedOver::kNo);
  }
  job.hands_over = groups;
  return absl::OkStatus();
}

}  // namespace muster
