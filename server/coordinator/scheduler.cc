#include "server/coordinator/scheduler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "server/coordinator/cluster_room.h"
#include "server/coordinator/job_state_machine.h"
#include "server/coordinator/shard_map.h"

namespace muster {
namespace {

void SetWaiting(Job& job, std::string text) {
  if (job.waiting_for == text) return;
  job.waiting_for = std::move(text);
  ++job.status_version;
}

void GiveSlot(const SlotPlace& place, v1::JobRecord& record, uint32_t slot) {
  v1::SlotRecord& holder = *record.mutable_slots(slot);
  holder.set_worker_id(place.worker_id);
  holder.set_worker_incarnation(place.incarnation);
  holder.set_expect_state(record.has_run());
}

std::string Names(const std::vector<ServerShare>& servers) {
  return absl::StrJoin(servers, ", ", [](std::string* out, const ServerShare& server) {
    absl::StrAppend(out, server.id);
  });
}

// What a job with all its slots and servers still waits for.
std::string WaitsForTasks(const Job& job) {
  std::vector<uint32_t> missing;
  if (!job.record.has_met()) {
    missing = job.rendezvous.Missing();
  } else {
    for (uint32_t slot = 0; slot < job.slots(); ++slot) {
      if (!job.record.slots(slot).done() && !job.tasks[slot].heard) missing.push_back(slot);
    }
  }
  if (missing.empty() || job.record.state() == v1::RUNNING) return "";
  return absl::StrCat(job.slots() - missing.size(), " of ", job.slots(),
                      " tasks are there; waits for slot ", absl::StrJoin(missing, ", "));
}

}  // namespace

Scheduler::Scheduler(JobTable& jobs, const Membership& members, const Clock& clock,
                     CoordinatorMetrics& metrics)
    : jobs_(jobs), members_(members), clock_(clock), metrics_(metrics) {}

absl::Status Scheduler::Run() {
  Turn turn{.room = RoomOf(jobs_, members_)};
  for (const auto& [number, job] : jobs_.jobs()) {
    if (IsActive(job->record.state())) MUSTER_RETURN_IF_ERROR(RunRecovering(*job, turn));
  }
  for (const auto& [number, job] : jobs_.jobs()) {
    if (job->record.state() == v1::PENDING) MUSTER_RETURN_IF_ERROR(PlaceWhole(*job, turn));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::RunRecovering(Job& job, Turn& turn) {
  if (job.record.servers().empty()) return PlaceWhole(job, turn);
  if (!job.missing_servers.empty()) {
    std::vector<std::string> waits;
    for (const std::string& server : job.missing_servers) {
      waits.push_back(
          absl::StrCat("server ", server, " (partitions ", PartitionsOf(server, job.record), ")"));
    }
    SetWaiting(job, absl::StrCat("waits for ", absl::StrJoin(waits, ", "),
                                 " to register again: the job's state is in its log"));
    return absl::OkStatus();
  }
  return FillSlots(job, turn);
}

absl::Status Scheduler::FillSlots(Job& job, Turn& turn) {
  JobChange change{.record = job.record};
  std::string waiting;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    const v1::SlotRecord& holder = job.record.slots(slot);
    if (holder.done() || !holder.worker_id().empty()) continue;
    if (job.tasks[slot].not_before > clock_.Monotonic()) {
      waiting = absl::StrCat("slot ", slot, " waits a little before its next task, after ",
                             holder.failures(), " failures");
      continue;
    }
    auto place = PlaceSlots(1, BytesPerSlot(job.record), turn.room);
    if (!place.ok()) {
      waiting = absl::StrCat("slot ", slot, ": ", place.status().message());
      // Pending jobs must not take what frees up next, if that could ever be enough.
      if (turn.blocked_by.empty()) {
        const ClusterRoom whole = WholeRoomOf(members_);
        if (!whole.workers.empty() && FitsEmpty(DemandOf(job.record, jobs_), whole).ok()) {
          turn.blocked_by = job.id();
        }
      }
      continue;
    }
    GiveSlot(place->front(), change.record, slot);
    change.events.push_back(absl::StrCat("slot ", slot, " goes to worker ",
                                         place->front().worker_id, ", incarnation ",
                                         holder.incarnation()));
  }
  if (!change.events.empty()) MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  SetWaiting(job, waiting.empty() ? WaitsForTasks(job) : waiting);
  return absl::OkStatus();
}

absl::Status Scheduler::PlaceWhole(Job& job, Turn& turn) {
  if (!turn.blocked_by.empty()) {
    SetWaiting(job, absl::StrCat("waits behind job ", turn.blocked_by, ", which comes first"));
    return absl::OkStatus();
  }
  const Demand demand = DemandOf(job.record, jobs_);
  absl::StatusOr<Assignment> assignment = Place(demand, turn.room);
  if (!assignment.ok()) {
    SetWaiting(job, std::string(assignment.status().message()));
    const ClusterRoom whole = WholeRoomOf(members_);
    const bool fits_alone =
        !whole.workers.empty() && !whole.servers.empty() && FitsEmpty(demand, whole).ok();
    if (fits_alone) turn.blocked_by = job.id();
    return absl::OkStatus();
  }
  JobChange change{.record = job.record};
  DealShards(assignment->servers, change.record);
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    GiveSlot(assignment->slots[slot], change.record, slot);
  }
  // Servers of an earlier generation that have no part in this one drop what they hold.
  absl::flat_hash_set<std::string> chosen;
  for (const ServerShare& server : assignment->servers) chosen.insert(server.id);
  for (const std::string& former : job.record.former_servers()) {
    if (!chosen.contains(former)) change.drops.push_back(former);
  }
  change.record.clear_former_servers();
  if (job.record.state() == v1::PENDING) change.record.set_state(v1::PLACING);
  change.events.push_back(absl::StrCat("placed: ", job.slots(), " slots, partitions on ",
                                       Names(assignment->servers), "; generation ",
                                       job.record.generation(), ", shard map version ",
                                       change.record.shard_map_version()));
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  metrics_.placed.Add();
  SetWaiting(job, WaitsForTasks(job));
  return absl::OkStatus();
}

}  // namespace muster
