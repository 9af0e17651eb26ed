#include "server/coordinator/lifecycle/round_record.h"

#include <algorithm>
#include <numeric>

#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "server/coordinator/job/find_checkpoint.h"

namespace muster {
namespace {

bool IsPresent(const v1::JobRecord& record, const v1::RoundMember& member) {
  return record.slots(member.slot()).incarnation() == member.incarnation();
}

}  // namespace

bool IsMember(const v1::JobRecord& record, uint32_t slot) {
  const auto& members = record.round().members();
  const auto member = std::lower_bound(
      members.begin(), members.end(), slot,
      [](const v1::RoundMember& each, uint32_t wanted) { return each.slot() < wanted; });
  return member != members.end() && member->slot() == slot && IsPresent(record, *member);
}

bool WasMember(const v1::JobRecord& record, uint32_t slot) {
  const auto& members = record.round().members();
  return std::any_of(members.begin(), members.end(),
                     [&](const v1::RoundMember& member) { return member.slot() == slot; });
}

bool RoundLasts(const v1::JobRecord& record, const Rendezvous& next) {
  const auto& members = record.round().members();
  return !members.empty() &&
         std::all_of(members.begin(), members.end(), [&](const v1::RoundMember& member) {
           return IsPresent(record, member) && !next.Has(member.slot());
         });
}

bool HasLostTask(const v1::JobRecord& record) {
  const auto& members = record.round().members();
  return std::any_of(members.begin(), members.end(), [&](const v1::RoundMember& member) {
    // No worker may be free for its slot.
    return !IsPresent(record, member) || record.slots(member.slot()).worker_id().empty();
  });
}

bool CanDoWithout(const v1::JobRecord& record, uint32_t slot) {
  const auto& members = record.round().members();
  const auto present =
      std::count_if(members.begin(), members.end(), [&](const v1::RoundMember& member) {
        return member.slot() != slot && IsPresent(record, member);
      });
  const int64_t enough = record.spec().min_workers();
  return enough > 0 && present >= enough && !IsMember(record, slot);
}

uint32_t SpeakingSlot(const v1::JobRecord& record) {
  if (!record.round().members().empty()) return record.round().members(0).slot();
  return record.member_slots().empty() ? 0 : record.member_slots(0);
}

uint32_t ReportingSlots(const v1::JobRecord& record) {
  return static_cast<uint32_t>(TrainingSlots(record).size());
}

std::vector<uint32_t> TrainingSlots(const v1::JobRecord& record) {
  std::vector<uint32_t> slots;
  for (const v1::RoundMember& member : record.round().members()) slots.push_back(member.slot());
  if (!slots.empty()) return slots;
  if (!record.member_slots().empty()) {
    return {record.member_slots().begin(), record.member_slots().end()};
  }
  slots.resize(record.slots_size());
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

bool Trains(const v1::JobRecord& record, uint32_t slot) {
  const auto& members = record.member_slots();
  return members.empty() || std::find(members.begin(), members.end(), slot) != members.end();
}

bool TakesOver(const v1::JobRecord& record) {
  return record.takes_over_generation() > 0 && !record.has_met();
}

uint32_t PlacedSlots(const v1::JobRecord& record) {
  return std::count_if(record.slots().begin(), record.slots().end(),
                       [](const v1::SlotRecord& slot) { return !slot.worker_id().empty(); });
}

bool AnyDone(const v1::JobRecord& record) {
  return std::any_of(record.slots().begin(), record.slots().end(),
                     [](const v1::SlotRecord& slot) { return slot.done(); });
}

bool AllDone(const v1::JobRecord& record) {
  const auto& members = record.round().members();
  if (!members.empty()) {
    return std::all_of(members.begin(), members.end(), [&](const v1::RoundMember& member) {
      return record.slots(member.slot()).done();
    });
  }
  const std::vector<uint32_t> slots = TrainingSlots(record);
  return !slots.empty() && std::all_of(slots.begin(), slots.end(),
                                       [&](uint32_t slot) { return record.slots(slot).done(); });
}

uint64_t BeginningOf(const Rendezvous::Round& next, const v1::JobRecord& record) {
  if (next.source.has_value()) return next.source->clock;
  uint64_t clock = record.start_clock();
  if (TrainsByAllReduce(record.spec())) return clock;
  // Newcomers know of no steps, but servers have them.
  for (const uint64_t closed : record.progress().clocks()) clock = std::max(clock, closed);
  return clock;
}

uint32_t CountMeetings(const Rendezvous::Round& next, const v1::JobRecord& record) {
  const v1::RoundRecord& last = record.round();
  const bool stuck = last.number() > 0 && BeginningOf(next, record) <= last.clock();
  return stuck ? last.meetings() + 1 : 1;
}

v1::RendezvousReply MeetingReply(const v1::JobRecord& record) {
  v1::RendezvousReply reply;
  if (const v1::CheckpointRecord* last = LastSound(record))
    reply.set_checkpoint_clock(last->clock());
  *reply.mutable_adjustments() = record.adjustments();
  if (!TrainsInRounds(record.spec())) reply.set_start_clock(record.start_clock());
  return reply;
}

std::optional<v1::RendezvousReply> StoredRound(const v1::JobRecord& record) {
  if (!RunsProgram(record.spec())) return std::nullopt;
  // The round was opened by a release that stored no secret, or no endpoints either.
  if (record.round().secret().empty()) return std::nullopt;
  v1::RendezvousReply reply;
  reply.set_round(record.round().number());
  reply.set_secret(record.round().secret());
  for (const v1::RoundMember& member : record.round().members()) {
    v1::CollectivePeer& peer = *reply.add_peers();
    peer.set_slot(member.slot());
    peer.set_endpoint(member.endpoint());
  }
  return reply;
}

absl::optional<uint32_t> BrokeForGood(const v1::JobRecord& record, const Rendezvous& next) {
  const auto& members = record.round().members();
  const auto has_left = [&](const v1::RoundMember& member) {
    return !IsPresent(record, member) || next.Has(member.slot());
  };
  const bool all_left = LossIsFinal(record.spec()) && record.spec().min_workers() == 0 &&
                        std::all_of(members.begin(), members.end(), has_left);
  if (!AnyDone(record) && !all_left) return absl::nullopt;
  const auto left = std::find_if(members.begin(), members.end(), has_left);
  return left == members.end() ? absl::nullopt : absl::optional<uint32_t>(left->slot());
}

bool EndsGeneration(const v1::JobRecord& record, const std::vector<uint32_t>& lost) {
  if (!TrainsInRounds(record.spec())) {
    return LossIsFinal(record.spec()) && record.has_met() && !lost.empty();
  }
  const bool loses =
      std::any_of(lost.begin(), lost.end(), [&](uint32_t slot) { return IsMember(record, slot); });
  if (!loses) return false;
  const auto ranks = static_cast<uint32_t>(record.round().members_size());
  if (LossIsFinal(record.spec(), ranks) || AnyDone(record)) return true;
  // Servers have what the tasks' successors need.
  if (!TrainsByAllReduce(record.spec())) return false;
  const auto& members = record.round().members();
  return std::none_of(members.begin(), members.end(), [&](const v1::RoundMember& member) {
    return IsPresent(record, member) &&
           std::find(lost.begin(), lost.end(), member.slot()) == lost.end();
  });
}

bool HasAdvanced(const v1::JobRecord& record) {
  const uint64_t start = record.start_clock();
  return record.has_run() || LastSoundClock(record, 0) > start ||
         (!record.evaluations().empty() && record.evaluations().rbegin()->clock() > start);
}

}  // namespace muster
