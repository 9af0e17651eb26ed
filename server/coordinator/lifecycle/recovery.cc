#include "server/coordinator/lifecycle/recovery.h"

#include <algorithm>

#include "absl/status/status.h"
#include "common/job/validation/job_validator.h"
#include "common/text/utf8.h"
#include "server/coordinator/cluster/shard_map.h"
#include "server/coordinator/job/find_checkpoint.h"
#include "server/coordinator/job/training_data.h"

namespace muster {

Losses FindLosses(const v1::JobRecord& record, const Membership& members) {
  Losses losses;
  for (int slot = 0; slot < record.slots_size(); ++slot) {
    const v1::SlotRecord& holder = record.slots(slot);
    if (holder.done() || holder.worker_id().empty()) continue;
    if (!members.Holds(holder.worker_id(), holder.worker_incarnation())) {
      losses.slots.push_back(slot);
    }
  }
  for (const v1::ServerRecord& server : record.servers()) {
    if (members.Holds(server.server_id(), server.incarnation())) continue;
    const Member* member = members.Find(server.server_id());
    if (member != nullptr && member->live && member->kind() == v1::SERVER) {
      losses.returned.push_back(IdentityOf(member->record));
    } else {
      losses.missing.push_back(server.server_id());
    }
  }
  return losses;
}

bool ContinuesInPlace(const v1::JobRecord& record) {
  return record.spec().update().durability() == v1::UpdateSpec::EVERY_PUSH &&
         (record.has_met() || record.takes_over_generation() > 0);
}

void LoseSlot(uint32_t slot, v1::JobRecord& record) {
  v1::SlotRecord& lost = *record.mutable_slots(slot);
  lost.set_incarnation(lost.incarnation() + 1);
  lost.clear_worker_id();
  lost.clear_worker_incarnation();
}

void StartFromLast(v1::JobRecord& record) {
  if (const v1::CheckpointRecord* last = LastSound(record)) {
    record.set_restore_uri(last->uri());
    record.set_restore_weights_only(false);
    record.set_start_clock(last->clock());
  } else {
    record.set_restore_uri(record.initial_uri());
    record.set_restore_weights_only(!record.initial_uri().empty() && !record.initial_resumes());
    record.set_start_clock(record.initial_clock());
  }
}

bool NoteDamage(const std::string& damage, v1::JobRecord& record) {
  for (v1::CheckpointRecord& checkpoint : *record.mutable_checkpoints()) {
    if (checkpoint.uri() != record.restore_uri()) continue;
    checkpoint.set_damage(ToUtf8(damage));
    return true;
  }
  return false;
}

void RollBack(v1::JobRecord& record) {
  record.set_generation(record.generation() + 1);
  for (int slot = 0; slot < record.slots_size(); ++slot) {
    LoseSlot(slot, record);
    record.mutable_slots(slot)->set_done(false);
    record.mutable_slots(slot)->set_expect_state(false);
    // The slot's failures are taken to come from what was lost.
    record.mutable_slots(slot)->clear_failures();
    record.mutable_slots(slot)->clear_failure_clock();
  }
  ClearShards(record);
  // Moves under way are dropped with all else; the next placement spreads the job anew.
  record.clear_moves();
  record.clear_rebalance();
  if (const auto data = DataOf(record)) *record.mutable_expected_data() = *data;
  record.clear_met();
  record.clear_round();
  record.clear_has_run();
  record.clear_member_slots();
  record.clear_takes_over_generation();
  StartFromLast(record);
  auto& evaluations = *record.mutable_evaluations();
  while (!evaluations.empty() && evaluations.rbegin()->clock() > record.start_clock()) {
    evaluations.RemoveLast();
  }
  auto& adjustments = *record.mutable_adjustments();
  while (!adjustments.empty() && adjustments.rbegin()->clock() > record.start_clock()) {
    adjustments.RemoveLast();
  }
  record.set_decided_clock(std::min(record.decided_clock(), record.start_clock()));
  record.set_verified_clock(std::min(record.verified_clock(), record.start_clock()));
  if (record.stop_clock() > record.start_clock()) record.clear_stop_clock();
}

uint32_t CountRollBack(uint64_t reached, v1::JobRecord& record) {
  const bool kept = LastSoundClock(record, 0) > record.start_clock();
  if (kept || reached > record.rollback_clock()) record.set_rollbacks(0);
  record.set_rollback_clock(std::max<uint64_t>(record.rollback_clock(), reached));
  record.set_rollbacks(record.rollbacks() + 1);
  return record.rollbacks();
}

uint64_t FinalClock(const v1::JobRecord& record) {
  return record.stop_clock() > 0 ? record.stop_clock() : record.met().total_steps();
}

bool IsComplete(const v1::JobRecord& record) {
  const uint64_t last = FinalClock(record);
  if (last == 0 || LastSoundClock(record, 0) < last) return false;
  if (!Evaluates(record.spec())) return true;
  // The held-out share of small data may hold no example.
  if (record.has_met() && record.met().held_out_examples() == 0) return true;
  return !record.evaluations().empty() && record.evaluations().rbegin()->clock() >= last;
}

bool MayRespawn(int code) {
  switch (static_cast<absl::StatusCode>(code)) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnavailable:
      return true;
    default:
      return false;
  }
}

uint32_t CountFailure(uint32_t slot, uint64_t clock, v1::JobRecord& record) {
  v1::SlotRecord& failed = *record.mutable_slots(slot);
  // Every slot has closed the clock of a checkpoint, also a slot whose task died before it reported
  // progress. The job may be behind a damaged one.
  for (const v1::CheckpointRecord& checkpoint : record.checkpoints()) {
    if (checkpoint.damage().empty()) clock = std::max(clock, checkpoint.clock());
  }
  if (clock > failed.failure_clock()) failed.set_failures(0);
  failed.set_failures(failed.failures() + 1);
  failed.set_failure_clock(clock);
  return failed.failures();
}

absl::Duration RespawnDelay(uint32_t failures, absl::Duration lease) {
  if (failures <= 1) return absl::ZeroDuration();
  return lease / 4 * (1 << std::min(failures - 2, 10u));
}

}  // namespace muster
