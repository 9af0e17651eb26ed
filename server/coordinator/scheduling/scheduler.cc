#include "server/coordinator/scheduling/scheduler.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "server/coordinator/cluster/cluster_capacity.h"
#include "server/coordinator/cluster/shard_map.h"
#include "server/coordinator/cluster/task_threads.h"
#include "server/coordinator/cluster/tensor_groups.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/round_record.h"
#include "server/coordinator/lifecycle/stall_watch.h"

namespace muster {
namespace {

// An empty text says that the job waits for nothing.
void SetWaiting(Job& job, WaitReason reason, std::string text) {
  job.wait_reason = text.empty() ? WaitReason::kNothing : reason;
  if (job.waiting_for == text) return;
  job.waiting_for = std::move(text);
  ++job.status_version;
}

void GiveSlot(const SlotWorker& place, v1::JobRecord& record, uint32_t slot) {
  v1::SlotRecord& holder = *record.mutable_slots(slot);
  holder.set_worker_id(place.worker_id);
  holder.set_worker_incarnation(place.incarnation);
  holder.set_expect_state(record.has_run());
}

// Returns "1 thread", "8 to 16 threads" and the like.
std::string ThreadsOf(const v1::JobSpec& spec, const std::vector<SlotWorker>& slots,
                      const Membership& members) {
  uint32_t least = UINT32_MAX, most = 0;
  for (const SlotWorker& slot : slots) {
    const uint32_t threads = TaskThreads(spec, members.Find(slot.worker_id)->record);
    least = std::min(least, threads);
    most = std::max(most, threads);
  }
  if (least < most) return absl::StrCat(least, " to ", most, " threads");
  return absl::StrCat(most, most == 1 ? " thread" : " threads");
}

std::string Names(const std::vector<ServerShare>& servers) {
  return absl::StrJoin(servers, ", ", [](std::string* out, const ServerShare& server) {
    absl::StrAppend(out, server.identity.server_id);
  });
}

// Returns what tasks say they cannot reach, each reason once.
std::string TasksWaitFor(const Job& job) {
  std::map<absl::string_view, std::vector<uint32_t>> slots;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    const TaskState& task = job.tasks[slot];
    const v1::SlotRecord& holder = job.record.slots(slot);
    if (task.waits_for.empty() || holder.done() ||
        task.waiting_incarnation != holder.incarnation()) {
      continue;
    }
    slots[task.waits_for].push_back(slot);
  }
  return absl::StrJoin(slots, "; ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, "slot ", absl::StrJoin(entry.second, ", "), ": ", entry.first);
  });
}

// Returns which slots sit in which collective call, and which others do not; empty if none does.
std::string SlotsInCalls(const Job& job) {
  std::map<absl::string_view, std::vector<uint32_t>> slots;
  std::vector<uint32_t> elsewhere;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    const std::string& call = job.tasks[slot].sits_in;
    if (!call.empty()) {
      slots[call].push_back(slot);
    } else if (IsMember(job.record, slot)) {
      elsewhere.push_back(slot);
    }
  }
  if (slots.empty()) return "";
  std::string text = absl::StrJoin(slots, "; ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, "slot ", absl::StrJoin(entry.second, ", "), " in ", entry.first);
  });
  if (!elsewhere.empty()) {
    absl::StrAppend(&text, "; slot ", absl::StrJoin(elsewhere, ", "), " in none");
  }
  return text;
}

// Returns why the last round of an all-reduce job ended; empty once a step has been made since.
std::string WaitsForStep(const Job& job) {
  const uint64_t clock = job.record.round().clock();
  if (job.round_failures.empty() || job.progress.step() > clock) return "";
  return absl::StrCat("progress from clock ", clock,
                      "; the last round ended: ", job.round_failures);
}

// Returns what a job with all its slots and servers still waits for.
std::string WaitsForTasks(const Job& job, absl::Duration now, absl::Duration lease) {
  if (const std::string told = TasksWaitFor(job); !told.empty()) return told;
  if (job.record.state() == v1::RUNNING) {
    if (const std::string ended = WaitsForStep(job); !ended.empty()) return ended;
    const std::vector<uint32_t> awaited = AwaitedFor(lease, now, job);
    return awaited.empty()
               ? SlotsInCalls(job)
               : absl::StrCat("the others wait for slot ", absl::StrJoin(awaited, ", "));
  }
  std::vector<uint32_t> missing;
  if (!job.record.has_met() || TrainsInRounds(job.record.spec())) {
    missing = job.rendezvous.Missing();
    std::erase_if(missing, [&](uint32_t slot) { return !Trains(job.record, slot); });
  } else {
    for (const uint32_t slot : TrainingSlots(job.record)) {
      if (!job.record.slots(slot).done() && !job.tasks[slot].heard) missing.push_back(slot);
    }
  }
  // Nobody waits for slots that the job can do without.
  std::erase_if(missing, [&](uint32_t slot) { return job.record.slots(slot).worker_id().empty(); });
  if (missing.empty()) return "";
  size_t placed = 0;
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    if (Trains(job.record, slot) && !job.record.slots(slot).worker_id().empty()) ++placed;
  }
  return absl::StrCat(placed - missing.size(), " of ", placed, " tasks are there; waits for slot ",
                      absl::StrJoin(missing, ", "));
}

bool IsPlaced(const v1::JobRecord& record) {
  if (NeedsServers(record.spec())) return !record.servers().empty();
  return std::any_of(record.slots().begin(), record.slots().end(),
                     [](const v1::SlotRecord& slot) { return !slot.worker_id().empty(); });
}

// Returns the slots that the job still needs: as many as it is short of its workers, first those of
// groups that have some already, then those that the others wait for.
std::vector<uint32_t> NeededSlots(const v1::JobRecord& record) {
  const uint32_t group = GroupOf(record.spec());
  std::vector<uint32_t> needed, others;
  uint32_t held = 0;
  for (uint32_t first = 0; first < static_cast<uint32_t>(record.slots_size()); first += group) {
    std::vector<uint32_t> missing;
    for (uint32_t slot = first; slot < first + group; ++slot) {
      const v1::SlotRecord& holder = record.slots(slot);
      if (!holder.done() && holder.worker_id().empty()) missing.push_back(slot);
    }
    held += group - missing.size();
    std::vector<uint32_t>& list = missing.size() < group ? needed : others;
    list.insert(list.end(), missing.begin(), missing.end());
  }
  std::stable_partition(others.begin(), others.end(),
                        [&](uint32_t slot) { return Trains(record, slot); });
  needed.insert(needed.end(), others.begin(), others.end());
  const uint32_t workers = record.spec().workers();
  needed.resize(std::min<size_t>(needed.size(), workers - std::min(held, workers)));
  return needed;
}

// Returns whether the job waits for more slots only for a while.
bool MayGoOnSmaller(const v1::JobRecord& record) {
  const uint32_t least = record.spec().min_workers();
  return least > 0 && PlacedSlots(record) >= least;
}

// Returns the worker to avoid for the job's next slot: the one that has all its others, if ranks
// keep copies on other workers (ZeroSpec.redundancy); empty: none.
std::string AvoidedWorker(const v1::JobRecord& record) {
  std::string only;
  if (SizeAlong(kShardAxes, record.spec()) == 1) return only;
  if (record.spec().parallelism().zero().redundancy() == 0) return only;
  for (const v1::SlotRecord& slot : record.slots()) {
    if (slot.worker_id().empty() || slot.worker_id() == only) continue;
    if (!only.empty()) return "";
    only = slot.worker_id();
  }
  return only;
}

// Adds what the job's slots hold to `capacity`.
void ReturnSlots(const v1::JobRecord& record, ClusterCapacity& capacity) {
  for (const v1::SlotRecord& slot : record.slots()) {
    if (slot.done() || slot.worker_id().empty()) continue;
    for (WorkerCapacity& worker : capacity.workers) {
      if (worker.id != slot.worker_id() || worker.incarnation != slot.worker_incarnation())
        continue;
      const SlotDemand took = SlotDemandOf(record);
      ++worker.free_slots;
      worker.free_devices += took.devices;
      if (worker.free_bytes != kUnlimitedBytes) worker.free_bytes += took.bytes;
    }
  }
}

}  // namespace

Scheduler::Scheduler(JobTable& jobs, const Membership& members, JobLifecycle& lifecycle,
                     const Clock& clock, CoordinatorMetrics& metrics, absl::Duration elastic_wait)
    : jobs_(jobs),
      members_(members),
      lifecycle_(lifecycle),
      clock_(clock),
      metrics_(metrics),
      elastic_wait_(elastic_wait),
      elastic_(jobs, clock) {}

absl::Status Scheduler::Run() {
  Turn turn{.capacity = CapacityOf(jobs_, members_)};
  const auto recover = [&] {
    for (const auto& [number, job] : jobs_.jobs()) {
      if (!IsActive(job->record.state())) continue;
      MUSTER_RETURN_IF_ERROR(RunRecovering(*job, turn));
      NoteUnplaced(*job);
    }
    return absl::OkStatus();
  };
  MUSTER_RETURN_IF_ERROR(recover());
  MUSTER_ASSIGN_OR_RETURN(const bool settled, SettleRivals(turn));
  if (settled) {
    turn = {.capacity = CapacityOf(jobs_, members_)};
    MUSTER_RETURN_IF_ERROR(recover());
  }
  for (const auto& [number, job] : jobs_.jobs()) {
    if (job->record.state() == v1::PENDING) MUSTER_RETURN_IF_ERROR(PlaceWhole(*job, turn));
  }
  const Job* const waits =
      turn.short_of_slots.empty() ? turn.blocked_by : turn.short_of_slots.front();
  elastic_.AskBack(waits, turn.capacity);
  return waits == nullptr ? elastic_.Grow(turn.capacity) : absl::OkStatus();
}

void Scheduler::NoteUnplaced(Job& job) const {
  for (uint32_t slot = 0; slot < job.slots(); ++slot) {
    std::optional<absl::Duration>& since = job.tasks[slot].unplaced_since;
    if (!job.record.slots(slot).worker_id().empty()) {
      since.reset();
    } else if (!since.has_value()) {
      since = clock_.Monotonic();
    }
  }
}

absl::StatusOr<bool> Scheduler::SettleRivals(const Turn& turn) {
  for (size_t first = 0; first + 1 < turn.short_of_slots.size(); ++first) {
    const v1::JobRecord& wants = turn.short_of_slots[first]->record;
    ClusterCapacity capacity = turn.capacity;
    for (size_t last = turn.short_of_slots.size() - 1; last > first; --last) {
      ReturnSlots(turn.short_of_slots[last]->record, capacity);
      ClusterCapacity left = capacity;
      const bool enough =
          IsPlaced(wants) ? CheckSlots(NeededSlots(wants).size(), SlotDemandOf(wants), left).ok()
                          : Place(DemandOf(wants, jobs_), left).ok();
      if (!enough) continue;
      for (size_t i = last; i < turn.short_of_slots.size(); ++i) {
        Job& gives = *turn.short_of_slots[i];
        if (PlacedSlots(gives.record) == 0) continue;
        MUSTER_RETURN_IF_ERROR(lifecycle_.GiveBackSlots(gives, wants.job_id()));
      }
      return true;
    }
  }
  return false;
}

absl::Status Scheduler::RunRecovering(Job& job, Turn& turn) {
  if (!IsPlaced(job.record)) {
    for (const TaskState& task : job.tasks) {
      if (task.not_before <= clock_.Monotonic()) continue;
      SetWaiting(job, WaitReason::kPause,
                 "waits a little before it starts again, after going back without progress");
      return absl::OkStatus();
    }
    return PlaceWhole(job, turn);
  }
  if (!job.missing_servers.empty()) {
    std::vector<std::string> waits;
    for (const std::string& server : job.missing_servers) {
      waits.push_back(
          absl::StrCat("server ", server, " (partitions ", PartitionsOf(server, job.record), ")"));
    }
    SetWaiting(job, WaitReason::kServer,
               absl::StrCat("waits for ", absl::StrJoin(waits, ", "),
                            " to register again: the job's state is in its log"));
    return absl::OkStatus();
  }
  return FillSlots(job, turn);
}

absl::Status Scheduler::FillSlots(Job& job, Turn& turn) {
  // Made once there is a change: most jobs, most of the time, have none.
  std::optional<JobChange> change;
  std::string waiting;
  WaitReason reason = WaitReason::kTasks;
  bool short_of_slots = false;
  std::vector<uint32_t> filled;
  for (const uint32_t slot : NeededSlots(job.record)) {
    const v1::SlotRecord& holder = job.record.slots(slot);
    if (job.tasks[slot].not_before > clock_.Monotonic()) {
      reason = WaitReason::kPause;
      waiting = absl::StrCat("slot ", slot, " waits a little before its next task, after ",
                             holder.failures(), " failures");
      continue;
    }
    const v1::JobRecord& record = change.has_value() ? change->record : job.record;
    SlotDemand demand = SlotDemandOf(record);
    demand.avoided = AvoidedWorker(record);
    const auto place = PlaceSlot(demand, WorkersOfTensorGroup(record, slot), turn.capacity);
    if (!place.ok()) {
      reason = WaitReason::kResources;
      waiting = absl::StrCat("slot ", slot, ": ", place.status().message());
      short_of_slots = true;
      // Pending jobs must not take the next free slots if those could ever be enough for this job.
      // Servers that are being drained count: the job may be on one already.
      if (turn.blocked_by == nullptr && job.record.state() == v1::RECOVERING) {
        const ClusterCapacity whole = WholeCapacityOf(members_);
        if (!whole.workers.empty() && FitsEmpty(DemandOf(job.record, jobs_), whole).ok()) {
          turn.blocked_by = &job;
        }
      }
      continue;
    }
    if (!change.has_value()) change = JobChange{.record = job.record};
    GiveSlot(*place, change->record, slot);
    change->events.push_back(absl::StrCat("slot ", slot, " goes to worker ", place->worker_id,
                                          ", incarnation ", holder.incarnation()));
    filled.push_back(slot);
  }
  if (change.has_value()) MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, *std::move(change)));
  if (job.member_change.has_value()) {
    for (const uint32_t slot : filled) job.tasks[slot].held_back = true;
  }
  if (short_of_slots && job.record.state() == v1::RECOVERING && !MayGoOnSmaller(job.record)) {
    turn.short_of_slots.push_back(&job);
  }
  SetWaiting(job, reason,
             waiting.empty() ? WaitsForTasks(job, clock_.Monotonic(), members_.lease()) : waiting);
  return absl::OkStatus();
}

absl::Status Scheduler::PlaceWhole(Job& job, Turn& turn) {
  if (turn.blocked_by != nullptr) {
    SetWaiting(job, WaitReason::kEarlierJob,
               absl::StrCat("waits behind job ", turn.blocked_by->id(), ", which comes first"));
    return absl::OkStatus();
  }
  const Demand demand = DemandOf(job.record, jobs_);
  absl::StatusOr<Assignment> assignment = Place(demand, turn.capacity);
  if (assignment.ok()) return StorePlacement(job, *assignment);
  if (const auto fewer = PlaceFewer(job, demand, turn); fewer.ok()) {
    return StorePlacement(job, *fewer);
  }
  SetWaiting(job, WaitReason::kResources, std::string(assignment.status().message()));
  if (job.record.state() == v1::RECOVERING) turn.short_of_slots.push_back(&job);
  const ClusterCapacity whole = WholeCapacityOf(jobs_, members_);
  const bool fits_alone = !whole.workers.empty() &&
                          (demand.partitions == 0 || !whole.servers.empty()) &&
                          FitsEmpty(demand, whole).ok();
  if (fits_alone) turn.blocked_by = &job;
  return absl::OkStatus();
}

absl::StatusOr<Assignment> Scheduler::PlaceFewer(const Job& job, Demand demand, Turn& turn) const {
  const uint32_t least = job.record.spec().min_workers();
  const std::optional<absl::Duration> since = job.tasks.front().unplaced_since;
  if (least > 0 && job.record.state() == v1::RECOVERING && since.has_value() &&
      clock_.Monotonic() - *since >= elastic_wait_) {
    const uint32_t group = std::max(demand.group, demand.expert_group);
    while (demand.slots >= least + group) {
      demand.slots -= group;
      if (auto fewer = Place(demand, turn.capacity); fewer.ok()) return fewer;
    }
  }
  return absl::ResourceExhaustedError("too few slots, or waits a little for more");
}

absl::Status Scheduler::StorePlacement(Job& job, const Assignment& assignment) {
  JobChange change{.record = job.record};
  DealShards(assignment.servers, change.record);
  for (uint32_t slot = 0; slot < assignment.slots.size(); ++slot) {
    GiveSlot(assignment.slots[slot], change.record, slot);
    if (MembersChangeOnServers(job.record.spec())) change.record.add_member_slots(slot);
  }
  // Servers of an earlier generation that have no part in this one drop what they hold.
  absl::flat_hash_set<std::string> chosen;
  for (const ServerShare& server : assignment.servers) chosen.insert(server.identity.server_id);
  for (const std::string& former : job.record.former_servers()) {
    if (!chosen.contains(former)) change.drops[former] = job.record.generation() - 1;
  }
  change.record.clear_former_servers();
  if (job.record.state() == v1::PENDING) change.record.set_state(v1::PLACING);
  const std::string where =
      assignment.servers.empty()
          ? absl::StrCat("generation ", job.record.generation())
          : absl::StrCat("partitions on ", Names(assignment.servers), "; generation ",
                         job.record.generation(), ", shard map version ",
                         change.record.shard_map_version());
  change.events.push_back(
      absl::StrCat("placed: ", assignment.slots.size(),
                   assignment.slots.size() == 1 ? " slot with " : " slots with ",
                   ThreadsOf(job.record.spec(), assignment.slots, members_), " each, ", where));
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  metrics_.placed.Increment();
  SetWaiting(job, WaitReason::kTasks, WaitsForTasks(job, clock_.Monotonic(), members_.lease()));
  return absl::OkStatus();
}

}  // namespace muster
