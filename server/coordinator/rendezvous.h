#ifndef MUSTER_SERVER_COORDINATOR_RENDEZVOUS_H_
#define MUSTER_SERVER_COORDINATOR_RENDEZVOUS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

// What the slots of one generation bring to their meeting. Holds values only; who waits is kept by
// the caller. Not thread-safe.
class Rendezvous {
 public:
  explicit Rendezvous(uint32_t slots) : slots_(slots) {}

  // Notes what a slot brings; a repeat replaces. FAILED_PRECONDITION, which ends the job: another
  // slot brought something else; names both slots, the field and both values.
  absl::Status Arrive(const v1::RendezvousRequest& request);

  // The slot's task is gone, and what it brought with it.
  void Forget(uint32_t slot) { arrived_.erase(slot); }

  // All tasks are gone.
  void Clear() { arrived_.clear(); }

  // What all agreed on, once all are there.
  std::optional<v1::RendezvousRecord> Met() const;

  // In order.
  std::vector<uint32_t> Missing() const;

 private:
  const uint32_t slots_;
  std::map<uint32_t, v1::RendezvousRecord> arrived_;
};

// Compares what a slot that came later brings with what the others agreed on. FAILED_PRECONDITION
// as above.
absl::Status CompareWithMet(const v1::RendezvousRequest& request, const v1::RendezvousRecord& met);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_RENDEZVOUS_H_
