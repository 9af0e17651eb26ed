#include "server/coordinator/lifecycle/member_plan.h"

#include <algorithm>
#include <cmath>

#include "server/coordinator/job/training_data.h"
#include "server/coordinator/lifecycle/recovery.h"
#include "server/coordinator/lifecycle/round_record.h"

namespace muster {
namespace {

// Most clocks by which the end is put off for the sake of fast steps.
constexpr double kMostAhead = 100'000;

}  // namespace

MemberPlan PlanMembers(const std::vector<SlotSituation>& slots, uint32_t least) {
  MemberPlan plan;
  bool waits = false;
  for (uint32_t number = 0; number < slots.size(); ++number) {
    const SlotSituation& slot = slots[number];
    const bool stays = slot.placed && !slot.leaves;
    if (stays) plan.members.push_back(number);
    if (stays && !slot.trains) plan.joining.push_back(number);
    if (!slot.trains || stays) continue;
    (slot.placed ? plan.leaving : plan.lost).push_back(number);
    waits = waits || (!slot.placed && slot.awaited);
  }
  if (waits || plan.members.size() < std::max(1u, least)) return plan;
  if (!plan.lost.empty()) {
    plan.change = MemberChange::kAtOnce;
  } else if (!plan.joining.empty() || !plan.leaving.empty()) {
    plan.change = MemberChange::kPlanned;
  }
  return plan;
}

uint64_t EndClock(uint64_t furthest, double steps_per_second) {
  const double ahead = std::isfinite(steps_per_second)
                           ? std::clamp(std::floor(steps_per_second), 0.0, kMostAhead)
                           : 0.0;
  return furthest + 1 + static_cast<uint64_t>(ahead);
}

void TakeOver(const std::vector<uint32_t>& members, v1::JobRecord& record) {
  for (int slot = 0; slot < record.slots_size(); ++slot) {
    v1::SlotRecord& holder = *record.mutable_slots(slot);
    const bool trains_on = std::find(members.begin(), members.end(), slot) != members.end();
    if (!trains_on) {
      if (!holder.worker_id().empty()) LoseSlot(slot, record);
    } else if (Trains(record, slot)) {
      holder.set_incarnation(holder.incarnation() + 1);
    }
    holder.set_expect_state(false);
  }
  // All generations since the last one that started from a checkpoint have the same tables.
  if (record.takes_over_generation() == 0) record.set_takes_over_generation(record.generation());
  record.set_generation(record.generation() + 1);
  record.mutable_member_slots()->Assign(members.begin(), members.end());
  if (const auto data = DataOf(record)) *record.mutable_expected_data() = *data;
  record.clear_met();
  record.clear_has_run();
  record.set_state(v1::RECOVERING);
}

}  // namespace muster
