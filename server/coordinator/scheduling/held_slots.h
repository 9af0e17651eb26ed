#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_HELD_SLOTS_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_HELD_SLOTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// A slot of an active job that a worker holds.
struct HeldSlot {
  const Job* job = nullptr;
  uint32_t slot = 0;
};

// The slots that each worker holds, so that the orders of all workers cost one pass over the slots
// of all jobs, not one for each worker. Logic thread only.
class HeldSlots {
 public:
  // `jobs` outlives the object.
  explicit HeldSlots(const JobTable& jobs) : jobs_(jobs) {}

  // Returns the slots of this incarnation of a worker, in order of jobs and slots. Valid until a
  // record changes.
  absl::Span<const HeldSlot> Of(absl::string_view worker_id, uint64_t incarnation);

 private:
  struct Worker {
    uint64_t incarnation = 0;
    std::vector<HeldSlot> slots;
  };

  void Read();

  const JobTable& jobs_;
  // The table's version when `workers_` was read; 0: never.
  uint64_t version_ = 0;
  // By id. Slots of an incarnation that is not the worker's last are left out.
  absl::flat_hash_map<std::string, Worker> workers_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_HELD_SLOTS_H_
