#ifndef MUSTER_SERVER_COORDINATOR_JOB_RENDEZVOUS_H_
#define MUSTER_SERVER_COORDINATOR_JOB_RENDEZVOUS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mesh/recovery_plan.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

// Arrivals of one generation's slots at their next meeting. Values only: the caller keeps parked
// calls. Not thread-safe.
class Rendezvous {
 public:
  explicit Rendezvous(uint32_t slots) : slots_(slots) {}

  // Notes what a slot brings; a repeat replaces the earlier one. FAILED_PRECONDITION, which ends
  // the job: another slot brought something else; names both slots, the field and both values.
  absl::Status Arrive(const v1::RendezvousRequest& request);

  // Discards what a slot brought, since its task is gone.
  void Forget(uint32_t slot) { arrived_.erase(slot); }

  // Discards everything: all tasks are gone, or have met.
  void Clear() { arrived_.clear(); }

  bool any() const { return !arrived_.empty(); }
  size_t size() const { return arrived_.size(); }
  bool Has(uint32_t slot) const { return arrived_.contains(slot); }
  // Returns whether a task there reported that its last collective call timed out.
  bool AnyLate() const;

  // Returns what all slots agreed on, or nullopt while a slot is missing.
  std::optional<v1::RendezvousRecord> Met() const;
  // Returns what the slots that are there agree on. REQUIRES: any().
  const v1::RendezvousRecord& Agreed() const { return arrived_.begin()->second.agreed; }

  // Returns the slots that are not there, in order.
  std::vector<uint32_t> Missing() const;

  // Returns why the last round ended, by slot, for the slots there whose calls failed.
  std::map<uint32_t, std::string> Failures() const;

  // A round of the slots that are there.
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
  };
  // Plans a round of the slots that are there, of a job whose ranks hold `shards` shards
  // (PlanRecovery). Of equally advanced slots the source is the lowest. FAILED_PRECONDITION, which
  // ends the job: replicas are more than one step apart, which all-reduce rules out; names the
  // slots and their clocks. (With several shards, ranks may have begun anew in a round that other
  // ranks, which still have theirs, did not reach.) REQUIRES: any(), and `shards` divides the
  // number of slots that are there.
  absl::StatusOr<Round> PlanRound(int shards) const;

 private:
  struct Arrival {
    v1::RendezvousRecord agreed;
    std::string endpoint;
    RankHolding holding;
    bool late = false;
    std::string failure;
  };

  const uint32_t slots_;
  std::map<uint32_t, Arrival> arrived_;
};

// Compares a late slot with what the others agreed on. FAILED_PRECONDITION as for Arrive.
absl::Status CompareWithMet(const v1::RendezvousRequest& request, const v1::RendezvousRecord& met);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_RENDEZVOUS_H_
