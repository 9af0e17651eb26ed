#include "server/coordinator/job/rendezvous.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/mesh/holding_message.h"

namespace muster {
namespace {

v1::RendezvousRecord RecordOf(const v1::RendezvousRequest& request) {
  v1::RendezvousRecord record;
  record.set_data_fingerprint(request.data_fingerprint());
  record.set_training_examples(request.training_examples());
  record.set_held_out_examples(request.held_out_examples());
  record.set_total_steps(request.total_steps());
  record.set_schema_fingerprint(request.schema_fingerprint());
  record.set_bucket_plan_fingerprint(request.bucket_plan_fingerprint());
  return record;
}

std::string Hex(uint64_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

absl::Status Compare(absl::string_view a_name, const v1::RendezvousRecord& a,
                     absl::string_view b_name, const v1::RendezvousRecord& b) {
  const auto differ = [&](absl::string_view field, absl::string_view a_value,
                          absl::string_view b_value, absl::string_view remedy) {
    if (a_value == b_value) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(a_name, " has ", field, " ", a_value, ", ",
                                                      b_name, " has ", b_value, "; ", remedy));
  };
  constexpr absl::string_view kSameData =
      "the workers do not see the same data: put the same files under the same path everywhere";
  constexpr absl::string_view kSameRelease =
      "the tasks built different models or plans: run the same release on all workers";
  MUSTER_RETURN_IF_ERROR(differ("training_examples", absl::StrCat(a.training_examples()),
                                absl::StrCat(b.training_examples()), kSameData));
  MUSTER_RETURN_IF_ERROR(differ("held_out_examples", absl::StrCat(a.held_out_examples()),
                                absl::StrCat(b.held_out_examples()), kSameData));
  MUSTER_RETURN_IF_ERROR(
      differ("data_fingerprint", Hex(a.data_fingerprint()), Hex(b.data_fingerprint()), kSameData));
  MUSTER_RETURN_IF_ERROR(differ("total_steps", absl::StrCat(a.total_steps()),
                                absl::StrCat(b.total_steps()), kSameRelease));
  MUSTER_RETURN_IF_ERROR(differ("schema_fingerprint", Hex(a.schema_fingerprint()),
                                Hex(b.schema_fingerprint()), kSameRelease));
  return differ("bucket_plan_fingerprint", Hex(a.bucket_plan_fingerprint()),
                Hex(b.bucket_plan_fingerprint()), kSameRelease);
}

}  // namespace

absl::Status Rendezvous::Arrive(const v1::RendezvousRequest& request) {
  const uint32_t slot = request.task().slot();
  Arrival arrival{.agreed = RecordOf(request),
                  .endpoint = request.endpoint(),
                  .holding = HoldingOf(request),
                  .late = request.late(),
                  .failure = request.failure()};
  if (request.has_taken_over_clock()) arrival.taken_over_clock = request.taken_over_clock();
  for (const auto& [other, brought] : arrived_) {
    if (other == slot) continue;
    MUSTER_RETURN_IF_ERROR(Compare(absl::StrCat("slot ", other), brought.agreed,
                                   absl::StrCat("slot ", slot), arrival.agreed));
    // One comparison is enough: those that came before agree with each other.
    break;
  }
  arrived_[slot] = std::move(arrival);
  return absl::OkStatus();
}

void Rendezvous::SitOut(uint32_t slot) {
  const auto it = arrived_.find(slot);
  if (it == arrived_.end()) return;
  Arrival& arrival = it->second;
  arrival.holding = {};
  arrival.late = false;
  arrival.failure.clear();
  arrival.sat_out = true;
}

bool Rendezvous::AnyLate() const {
  return std::any_of(arrived_.begin(), arrived_.end(),
                     [](const auto& arrived) { return arrived.second.late; });
}

bool Rendezvous::TakesPart(uint32_t slot) const {
  const uint32_t first = slot / group_ * group_;
  for (uint32_t other = first; other < first + group_; ++other) {
    if (!Has(other)) return false;
  }
  return true;
}

size_t Rendezvous::CountParticipants() const {
  return static_cast<size_t>(
      std::count_if(arrived_.begin(), arrived_.end(),
                    [this](const auto& arrived) { return TakesPart(arrived.first); }));
}

bool Rendezvous::CanSpare(const std::vector<uint32_t>& slots, const Mesh& mesh) const {
  std::vector<RankHolding> holdings;
  for (const auto& [slot, arrival] : arrived_) {
    if (!TakesPart(slot)) continue;
    const bool leaves = std::find(slots.begin(), slots.end(), slot) != slots.end();
    holdings.push_back(leaves ? RankHolding() : arrival.holding);
  }
  return PlanRecovery(holdings, mesh).ok();
}

std::optional<v1::RendezvousRecord> Rendezvous::Met(const std::vector<uint32_t>& slots) const {
  const bool all =
      std::all_of(slots.begin(), slots.end(), [this](uint32_t slot) { return Has(slot); });
  if (!all || slots.empty()) return std::nullopt;
  return Agreed();
}

std::optional<uint64_t> Rendezvous::taken_over_clock() const {
  for (const auto& [slot, arrival] : arrived_) {
    if (arrival.taken_over_clock.has_value()) return arrival.taken_over_clock;
  }
  return std::nullopt;
}

absl::StatusOr<Rendezvous::Round> Rendezvous::PlanRound(const std::optional<Mesh>& mesh) const {
  Round round;
  std::vector<RankHolding> holdings;
  std::optional<Round::Source> first, last;
  for (const auto& [slot, arrival] : arrived_) {
    if (!TakesPart(slot)) continue;
    v1::CollectivePeer& peer = round.peers.emplace_back();
    peer.set_slot(slot);
    peer.set_endpoint(arrival.endpoint);
    holdings.push_back(arrival.holding);
    if (arrival.sat_out) round.sat_out.push_back(slot);
    if (!arrival.holding.clock.has_value()) continue;
    const uint64_t clock = *arrival.holding.clock;
    if (!first.has_value() || clock > first->clock) first = {slot, clock};
    if (!last.has_value() || clock < last->clock) last = {slot, clock};
  }
  if (mesh.has_value() && mesh->size(kStateAxes) == 1 && first.has_value() &&
      first->clock > last->clock + 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "slot ", first->slot, " has made ", first->clock, " steps, slot ", last->slot, " ",
        last->clock,
        "; workers that train by all-reduce are at most one step apart: run the same release on "
        "all workers, and report this"));
  }
  if (!mesh.has_value()) {
    round.source = first;
    return round;
  }
  const absl::StatusOr<RecoveryPlan> plan = PlanRecovery(holdings, *mesh);
  if (plan.ok()) {
    round.source = {round.peers[plan->leader].slot(), plan->clock};
  } else {
    round.lost = std::string(plan.status().message());
  }
  return round;
}

std::vector<uint32_t> Rendezvous::Missing() const {
  std::vector<uint32_t> missing;
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    if (!arrived_.contains(slot)) missing.push_back(slot);
  }
  return missing;
}

std::map<uint32_t, std::string> Rendezvous::Failures() const {
  std::map<uint32_t, std::string> failures;
  for (const auto& [slot, arrival] : arrived_) {
    if (!arrival.failure.empty()) failures[slot] = arrival.failure;
  }
  return failures;
}

absl::Status CompareWithMet(const v1::RendezvousRequest& request, const v1::RendezvousRecord& met) {
  return Compare("the job", met, absl::StrCat("slot ", request.task().slot()), RecordOf(request));
}

}  // namespace muster
