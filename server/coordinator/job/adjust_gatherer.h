#ifndef MUSTER_SERVER_COORDINATOR_JOB_ADJUST_GATHERER_H_
#define MUSTER_SERVER_COORDINATOR_JOB_ADJUST_GATHERER_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/types/optional.h"
#include "proto/task_service.pb.h"

namespace muster {

// Gathers what the slots say when they ask, at one clock, what is decided for the steps to come.
// Not thread-safe.
class AdjustGatherer {
 public:
  // Takes a slot's request; a repeat replaces it. A request at another clock discards those there
  // are.
  void Add(const v1::AdjustRequest& request);

  // Discards the request of a slot whose task is gone.
  void Forget(uint32_t slot) { requests_.erase(slot); }
  // Discards all requests.
  void Clear() { requests_.clear(); }

  bool any() const { return !requests_.empty(); }
  // Returns whether the requests of all `asking` slots have come.
  bool complete(size_t asking) const { return requests_.size() >= asking; }
  // Returns the clock of the present requests. REQUIRES: any().
  uint64_t clock() const { return requests_.begin()->second.clock(); }
  // Returns the noise scale that the first slot that knows it has told; absent: none does.
  absl::optional<double> noise_scale() const;
  // Returns the requests by slot.
  const std::map<uint32_t, v1::AdjustRequest>& requests() const { return requests_; }

 private:
  std::map<uint32_t, v1::AdjustRequest> requests_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_ADJUST_GATHERER_H_
