#include "server/coordinator/scheduling/elastic_slots.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/mesh/job_mesh.h"
#include "server/coordinator/cluster/tensor_groups.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

bool IsElastic(const Job& job) {
  return IsActive(job.record.state()) && job.slots() > job.record.spec().workers();
}

// Returns the slots of a group that have no worker.
std::vector<uint32_t> Missing(const v1::JobRecord& record, uint32_t first, uint32_t group) {
  std::vector<uint32_t> missing;
  for (uint32_t slot = first; slot < first + group; ++slot) {
    if (record.slots(slot).worker_id().empty()) missing.push_back(slot);
  }
  return missing;
}

// Returns the first slot of the group that is easiest to complete: one of those that lack the
// fewest slots; nullopt: all are complete.
std::optional<uint32_t> GroupToComplete(const v1::JobRecord& record, uint32_t group) {
  std::optional<uint32_t> best;
  size_t fewest = group + 1;
  for (uint32_t first = 0; first < static_cast<uint32_t>(record.slots_size()); first += group) {
    const size_t missing = Missing(record, first, group).size();
    if (missing == 0 || missing >= fewest) continue;
    fewest = missing;
    best = first;
  }
  return best;
}

// Adds what the slot holds of its worker to `capacity`.
void ReturnSlot(const v1::JobRecord& record, uint32_t slot, ClusterCapacity& capacity) {
  const v1::SlotRecord& holder = record.slots(slot);
  for (WorkerCapacity& worker : capacity.workers) {
    if (worker.id != holder.worker_id() || worker.incarnation != holder.worker_incarnation()) {
      continue;
    }
    const SlotDemand took = SlotDemandOf(record);
    ++worker.free_slots;
    worker.free_devices += took.devices;
    if (worker.free_bytes != kUnlimitedBytes) worker.free_bytes += took.bytes;
  }
}

}  // namespace

uint32_t GroupOf(const v1::JobSpec& spec) { return SizeAlong(kLayerAxes | kExpertAxes, spec); }

absl::Status ElasticSlots::Grow(ClusterCapacity& capacity) {
  std::vector<Job*> growing;
  for (const auto& [number, job] : jobs_.jobs()) {
    const bool grows = IsElastic(*job) && job->record.state() != v1::RECOVERING &&
                       !AnyDone(job->record) && clock_.Monotonic() >= job->grows_after &&
                       PlacedSlots(job->record) >= job->record.spec().workers();
    if (grows) growing.push_back(job.get());
  }
  while (!growing.empty()) {
    std::vector<Job*> grew;
    for (Job* job : growing) {
      MUSTER_ASSIGN_OR_RETURN(const bool took, GrowOnce(*job, capacity));
      if (took) grew.push_back(job);
    }
    growing = std::move(grew);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ElasticSlots::GrowOnce(Job& job, ClusterCapacity& capacity) {
  const uint32_t group = GroupOf(job.record.spec());
  const std::optional<uint32_t> first = GroupToComplete(job.record, group);
  if (!first.has_value()) return false;
  const std::vector<uint32_t> missing = Missing(job.record, *first, group);
  const auto waits = [&](uint32_t slot) { return job.tasks[slot].not_before > clock_.Monotonic(); };
  if (std::any_of(missing.begin(), missing.end(), waits)) return false;
  const SlotDemand demand = SlotDemandOf(job.record);
  ClusterCapacity left = capacity;
  JobChange change{.record = job.record};
  for (const uint32_t slot : missing) {
    const auto place = PlaceSlot(demand, WorkersOfTensorGroup(change.record, slot), left);
    if (!place.ok()) return false;
    v1::SlotRecord& holder = *change.record.mutable_slots(slot);
    holder.set_worker_id(place->worker_id);
    holder.set_worker_incarnation(place->incarnation);
    holder.set_expect_state(change.record.has_run());
    change.events.push_back(absl::StrCat("slot ", slot, " is taken in addition, on worker ",
                                         place->worker_id, ", which was free"));
  }
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(job, std::move(change)));
  capacity = std::move(left);
  return true;
}

void ElasticSlots::AskBack(const Job* waiting, ClusterCapacity capacity) {
  std::vector<std::pair<Job*, uint32_t>> asked;
  bool enough = false;
  const auto fits = [&] {
    if (waiting == nullptr) return false;
    ClusterCapacity left = capacity;
    const v1::JobRecord& wants = waiting->record;
    const uint32_t held = PlacedSlots(wants);
    return held == 0 ? Place(DemandOf(wants, jobs_), left).ok()
                     : CheckSlots(wants.spec().workers() - std::min(held, wants.spec().workers()),
                                  SlotDemandOf(wants), left)
                           .ok();
  };
  for (auto it = jobs_.jobs().rbegin(); it != jobs_.jobs().rend(); ++it) {
    Job& job = *it->second;
    if (!IsElastic(job)) continue;
    for (TaskState& task : job.tasks) task.wanted_by.clear();
    if (waiting == nullptr || waiting == &job) continue;
    const uint32_t group = GroupOf(job.record.spec());
    uint32_t held = PlacedSlots(job.record);
    for (uint32_t end = job.slots(); end > 0 && !enough; end -= group) {
      const size_t holds = group - Missing(job.record, end - group, group).size();
      if (holds == 0) continue;
      if (held < job.record.spec().workers() + holds) break;
      held -= holds;
      for (uint32_t slot = end - group; slot < end; ++slot) {
        if (job.record.slots(slot).worker_id().empty()) continue;
        ReturnSlot(job.record, slot, capacity);
        asked.emplace_back(&job, slot);
      }
      enough = fits();
    }
  }
  if (!enough) return;
  for (const auto& [job, slot] : asked) {
    job->tasks[slot].wanted_by = waiting->id();
    job->grows_after = clock_.Monotonic() + kGrowthPause;
  }
}

}  // namespace muster
