#ifndef MUSTER_SERVER_COORDINATOR_JOB_RENDEZVOUS_H_
#define MUSTER_SERVER_COORDINATOR_JOB_RENDEZVOUS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mesh/mesh.h"
#include "common/mesh/recovery_plan.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

// Arrivals of one generation's slots at their next meeting. Values only: the caller keeps parked
// calls. Not thread-safe.
class Rendezvous {
 public:
  // `group` is the number of neighbouring slots that take part in a round together or not at all:
  // those that compute one data rank's share, or have all experts together. Divides `slots`.
  explicit Rendezvous(uint32_t slots, uint32_t group = 1) : slots_(slots), group_(group) {}

  // Notes what a slot brings; a repeat replaces the earlier one. FAILED_PRECONDITION, which ends
  // the job: another slot brought something else; names both slots, the field and both values.
  absl::Status Arrive(const v1::RendezvousRequest& request);

  // Discards what a slot brought, since its task is gone.
  void Forget(uint32_t slot) { arrived_.erase(slot); }

  // Notes that a round opened without this slot, if it is there. What the slot brought may be of
  // steps that the others made with other sums, and how its last round ended is past: it counts
  // like a slot that brought nothing.
  void SitOut(uint32_t slot);

  // Discards everything: all tasks are gone, or have met.
  void Clear() { arrived_.clear(); }

  bool any() const { return !arrived_.empty(); }
  bool Has(uint32_t slot) const { return arrived_.contains(slot); }
  // Returns whether the slot is there with its whole group.
  bool TakesPart(uint32_t slot) const;
  // Returns the number of slots that take part in a round of those that are there.
  size_t CountParticipants() const;
  // Returns whether a task there reported that its last collective call timed out.
  bool AnyLate() const;

  // Returns whether those that take part have all that there is even without what these slots
  // bring. REQUIRES: the mesh has as many ranks as slots that take part.
  bool CanSpare(const std::vector<uint32_t>& slots, const Mesh& mesh) const;

  // Returns what these slots agreed on, or nullopt while one of them is missing.
  std::optional<v1::RendezvousRecord> Met(const std::vector<uint32_t>& slots) const;
  // Returns the clock at which a generation that takes over tables goes on, as its first slot says;
  // absent: it has not come.
  std::optional<uint64_t> taken_over_clock() const;
  // Returns what the slots that are there agree on. REQUIRES: any().
  const v1::RendezvousRecord& Agreed() const { return arrived_.begin()->second.agreed; }

  // Returns the slots that are not there, in order.
  std::vector<uint32_t> Missing() const;

  // Returns why the last round ended, by slot, for the slots there whose calls failed.
  std::map<uint32_t, std::string> Failures() const;

  // A round of the slots that take part.
  struct Round {
    // Peers by rank.
    std::vector<v1::CollectivePeer> peers;
    // The slot with the most advanced replica or shard, from which all continue, and its clock.
    // Absent: what the slots have is not enough to go on from, as `lost` says.
    struct Source {
      uint32_t slot = 0;
      uint64_t clock = 0;
    };
    std::optional<Source> source;
    std::string lost;
    // The slots of the round that sat out the last one (SitOut), in order.
    std::vector<uint32_t> sat_out;
  };
  // Plans a round of the slots that take part, of a job with such a mesh (PlanRecovery);
  // none if servers hold everything, so that slots may be any number of steps apart
  // and the source is only the most advanced one. Of equally advanced slots the source is the
  // lowest. FAILED_PRECONDITION, which ends the job: replicas are more than one step apart, which
  // all-reduce rules out; names the slots and their clocks. (With several shards, ranks may have
  // begun anew in a round that other ranks, which still have theirs, did not reach.) REQUIRES: some
  // slot takes part, and the mesh has as many ranks as slots that do.
  absl::StatusOr<Round> PlanRound(const std::optional<Mesh>& mesh) const;

 private:
  struct Arrival {
    v1::RendezvousRecord agreed;
    std::string endpoint;
    RankHolding holding;
    bool late = false;
    std::string failure;
    bool sat_out = false;
    std::optional<uint64_t> taken_over_clock;
  };

  const uint32_t slots_;
  const uint32_t group_;
  std::map<uint32_t, Arrival> arrived_;
};

// Compares a late slot with what the others agreed on. FAILED_PRECONDITION as for Arrive.
absl::Status CompareWithMet(const v1::RendezvousRequest& request, const v1::RendezvousRecord& met);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_RENDEZVOUS_H_
