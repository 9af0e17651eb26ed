#include "server/coordinator/scheduling/slow_workers.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "server/coordinator/cluster/cluster_capacity.h"
#include "server/coordinator/cluster/placement.h"
#include "server/coordinator/history/slot_times.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/left_workers.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

constexpr absl::Duration kLookInterval = absl::Seconds(1);
// Parts of a slot's times that must have begun since its worker was first seen to be slow.
constexpr int kFewestParts = 3;

bool HasTask(const v1::SlotRecord& holder) { return !holder.done() && !holder.worker_id().empty(); }

// Returns the slots that the job has on the worker.
std::vector<uint32_t> SlotsOn(const v1::JobRecord& record, const std::string& worker_id) {
  std::vector<uint32_t> slots;
  for (int slot = 0; slot < record.slots_size(); ++slot) {
    const v1::SlotRecord& holder = record.slots(slot);
    if (HasTask(holder) && holder.worker_id() == worker_id) slots.push_back(slot);
  }
  return slots;
}

// Returns a reason of SlowSlots as what was.
std::string InPast(const std::string& reason) {
  return absl::StrReplaceAll(reason, {{"waits ", "waited "}, {"computes ", "computed "}});
}

}  // namespace

absl::Status SlowWorkers::Look() {
  const absl::Duration now = clock_.Monotonic();
  if (now < next_look_) return absl::OkStatus();
  next_look_ = now + kLookInterval;
  std::erase_if(watches_, [&](const auto& entry) {
    const Job* job = jobs_.Find(entry.first);
    return job == nullptr || !IsActive(job->record.state());
  });
  for (const auto& [number, job] : jobs_.jobs()) {
    if (!job->record.spec().replace_slow() || !IsActive(job->record.state())) continue;
    const auto [watch, added] = watches_.try_emplace(job->id());
    if (added && !job->record.left_workers().empty()) watch->second.not_before = now + kPause;
    MUSTER_RETURN_IF_ERROR(LookAt(*job, watch->second));
  }
  return absl::OkStatus();
}

absl::Status SlowWorkers::LookAt(Job& job, Watch& watch) {
  const absl::Duration now = clock_.Monotonic();
  const std::map<std::string, std::string> slow = FindSlow(job);
  std::map<std::string, absl::Duration> since;
  for (const auto& [worker, reason] : slow) {
    const auto known = watch.since.find(worker);
    since[worker] = known == watch.since.end() ? now : known->second;
  }
  watch.since = std::move(since);
  // The worker that has been slow for longest comes first.
  std::vector<std::pair<absl::Duration, std::string>> staying;
  for (const auto& [worker, first_seen] : watch.since) {
    if (StaysSlow(job, worker, first_seen)) staying.emplace_back(first_seen, worker);
  }
  std::sort(staying.begin(), staying.end());
  std::string waits;
  for (const auto& [first_seen, worker] : staying) {
    if (now < watch.not_before) break;
    const std::string& reason = slow.at(worker);
    const std::string lacks = Lacks(job, worker);
    if (lacks.empty()) {
      MUSTER_RETURN_IF_ERROR(Leave(job, worker, InPast(reason)));
      watch.not_before = now + kPause;
      waits.clear();
      break;
    }
    if (waits.empty()) {
      waits = absl::StrCat(lacks, " to leave worker ", worker, ", which ", reason);
    }
  }
  if (job.leave_waits_for != waits) {
    job.leave_waits_for = std::move(waits);
    ++job.status_version;
  }
  return absl::OkStatus();
}

std::map<std::string, std::string> SlowWorkers::FindSlow(const Job& job) const {
  std::map<std::string, std::string> slow;
  if (job.record.state() != v1::RUNNING) return slow;
  const std::vector<std::string> reasons = SlowSlots(job.progress.times());
  std::map<std::string, std::string> workers;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    const v1::SlotRecord& holder = job.record.slots(slot);
    if (!HasTask(holder)) continue;
    // One worker at a time: the slots of the last one are still there.
    if (HasLeft(job.record, holder.worker_id())) return {};
    const Member* member = members_.Find(holder.worker_id());
    const bool is_slow = job.tasks[slot].heard && !reasons[slot].empty() && member != nullptr &&
                         member->live && !member->leaves;
    const auto [entry, first] = workers.try_emplace(holder.worker_id(), reasons[slot]);
    if (!is_slow) entry->second.clear();
  }
  for (auto& [worker, reason] : workers) {
    if (!reason.empty()) slow.emplace(worker, std::move(reason));
  }
  return slow;
}

bool SlowWorkers::StaysSlow(const Job& job, const std::string& worker_id,
                            absl::Duration since) const {
  if (clock_.Monotonic() - since < slow_after_) return false;
  const std::vector<uint32_t> slots = SlotsOn(job.record, worker_id);
  return std::all_of(slots.begin(), slots.end(), [&](uint32_t slot) {
    const auto& parts = job.progress.times()[slot].parts();
    return std::count_if(parts.begin(), parts.end(), [&](const SlotTimes::Part& part) {
             return part.begin >= since;
           }) >= kFewestParts;
  });
}

std::string SlowWorkers::Lacks(const Job& job, const std::string& worker_id) const {
  const v1::JobRecord& record = job.record;
  size_t live = 0, left = 0;
  for (const auto& [id, member] : members_.members()) {
    if (!member.live || member.kind() != v1::WORKER) continue;
    ++live;
    left += HasLeft(record, id) ? 1 : 0;
  }
  if (left + 1 > std::max<size_t>(live / 3, 1)) {
    return absl::StrCat("more workers: the job has left ", left, " of ", live,
                        ", and may leave a third,");
  }
  SlotDemand demand = SlotDemandOf(record);
  demand.left_workers.insert(worker_id);
  ClusterCapacity capacity = CapacityOf(jobs_, members_);
  const uint32_t workers = record.spec().workers();
  const uint32_t beyond = std::max(PlacedSlots(record), workers) - workers;
  const auto slots = static_cast<uint32_t>(SlotsOn(record, worker_id).size());
  const uint32_t needed = slots - std::min(slots, beyond);
  for (uint32_t i = 0; i < needed; ++i) {
    if (PlaceSlot(demand, {}, capacity).ok()) continue;
    return needed == 1 ? "a free slot" : absl::StrCat(needed - i, " more free slots");
  }
  return "";
}

absl::Status SlowWorkers::Leave(Job& job, const std::string& worker_id, const std::string& reason) {
  JobChange change{.record = job.record};
  muster::Leave(change.record, worker_id, reason, jobs_.NowUnixMs());
  change.events.emplace_back(
      absl::StrCat("leaves worker ", worker_id, ", which ", reason, ", with slot ",
                   absl::StrJoin(SlotsOn(job.record, worker_id), ", ")),
      v1::JobEvent::LEFT);
  return jobs_.Commit(job, std::move(change));
}

}  // namespace muster
