#include "server/coordinator/scheduling/held_slots.h"

#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {

absl::Span<const HeldSlot> HeldSlots::Of(absl::string_view worker_id, uint64_t incarnation) {
  if (version_ != jobs_.version()) Read();
  const auto it = workers_.find(worker_id);
  if (it == workers_.end() || it->second.incarnation != incarnation) return {};
  return it->second.slots;
}

void HeldSlots::Read() {
  workers_.clear();
  for (const auto& [number, job] : jobs_.jobs()) {
    if (!IsActive(job->record.state())) continue;
    for (int slot = 0; slot < job->record.slots_size(); ++slot) {
      const v1::SlotRecord& holder = job->record.slots(slot);
      if (holder.done() || holder.worker_id().empty()) continue;
      // Its first task is of a later generation.
      if (!Trains(job->record, slot) || job->tasks[slot].held_back) continue;
      Worker& worker = workers_[holder.worker_id()];
      if (holder.worker_incarnation() < worker.incarnation) continue;
      if (holder.worker_incarnation() > worker.incarnation) {
        worker = {.incarnation = holder.worker_incarnation()};
      }
      worker.slots.push_back({.job = job.get(), .slot = static_cast<uint32_t>(slot)});
    }
  }
  version_ = jobs_.version();
}

}  // namespace muster
