#ifndef MUSTER_SERVER_COORDINATOR_JOB_RENDEZVOUS_H_
#define MUSTER_SERVER_COORDINATOR_JOB_RENDEZVOUS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

// What the slots of one generation bring to their next meeting. Holds values only; who waits is
// kept by the caller. Not thread-safe.
class Rendezvous {
 public:
  explicit Rendezvous(uint32_t slots) : slots_(slots) {}

  // Notes what a slot brings; a repeat replaces. FAILED_PRECONDITION, which ends the job: another
  // slot brought something else; names both slots, the field and both values.
  absl::Status Arrive(const v1::RendezvousRequest& request);

  // The slot's task is gone, and what it brought with it.
  void Forget(uint32_t slot) { arrived_.erase(slot); }

  // All tasks are gone, or have met.
  void Clear() { arrived_.clear(); }

  bool any() const { return !arrived_.empty(); }
  size_t size() const { return arrived_.size(); }
  bool Has(uint32_t slot) const { return arrived_.contains(slot); }
  // Somebody has waited in vain already, in the call that brought it here.
  bool AnyLate() const;

  // What all agreed on, once all are there.
  std::optional<v1::RendezvousRecord> Met() const;
  // What those who are there agree on. REQUIRES: any().
  const v1::RendezvousRecord& Agreed() const { return arrived_.begin()->second.agreed; }

  // In order.
  std::vector<uint32_t> Missing() const;

  // Why the last round ended, by slot: what each that is there and whose calls failed says.
  std::map<uint32_t, std::string> Failures() const;

  // How those who are there would train together by all-reduce.
  struct Round {
    // By rank.
    std::vector<v1::CollectivePeer> peers;
    // Whose replica all go on from, and its clock; absent: nobody has one.
    struct Source {
      uint32_t slot = 0;
      uint64_t clock = 0;
    };
    std::optional<Source> source;
  };
  // The source is the most advanced replica, of equals that of the lowest slot.
  // FAILED_PRECONDITION, which ends the job: replicas are more than one step apart, though no step
  // ends without all; names the slots and their clocks. REQUIRES: any().
  absl::StatusOr<Round> PlanRound() const;

 private:
  struct Arrival {
    v1::RendezvousRecord agreed;
    std::string endpoint;
    std::optional<uint64_t> replica_clock;
    bool late = false;
    std::string failure;
  };

  const uint32_t slots_;
  std::map<uint32_t, Arrival> arrived_;
};

// Compares what a slot that came later brings with what the others agreed on. FAILED_PRECONDITION
// as above.
absl::Status CompareWithMet(const v1::RendezvousRequest& request, const v1::RendezvousRecord& met);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_RENDEZVOUS_H_
