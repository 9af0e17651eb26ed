#ifndef MUSTER_SERVER_COORDINATOR_JOB_STEP_GATHERER_H_
#define MUSTER_SERVER_COORDINATOR_JOB_STEP_GATHERER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/mesh/mesh.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/job/share_comparison.h"

namespace muster {

// Gathers what the slots computed of one step that is verified. Each request says all that its slot
// has computed so far, so nothing is lost with the coordinator. Not thread-safe.
class StepGatherer {
 public:
  // Takes a slot's request; a later one replaces it. A request at another clock discards those
  // there are.
  void Add(const v1::VerifyStepRequest& request);

  // Discards the request of a slot whose task is gone.
  void Forget(uint32_t slot) { requests_.erase(slot); }
  void Clear() { requests_.clear(); }

  bool any() const { return !requests_.empty(); }
  // Returns the clock of the present requests. REQUIRES: any().
  uint64_t clock() const { return requests_.begin()->second.clock(); }

  // Returns what the slots say. `slots` are those of the ranks of `mesh`, in order.
  std::vector<ShareOpinion> Opinions(const Mesh& mesh, const std::vector<uint32_t>& slots) const;
  // Returns what the slots' bits depend on, each only once.
  std::map<std::string, std::set<uint32_t>> Processors() const;
  // Returns the slots that have had the fewest answers, and how many that is. REQUIRES: any().
  struct Behind {
    uint32_t attempt = 0;
    std::set<uint32_t> slots;
  };
  Behind FindBehind() const;

 private:
  std::map<uint32_t, v1::VerifyStepRequest> requests_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_STEP_GATHERER_H_
