#ifndef MUSTER_SERVER_COORDINATOR_JOB_PROGRAM_PARTS_H_
#define MUSTER_SERVER_COORDINATOR_JOB_PROGRAM_PARTS_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "proto/task_service.pb.h"

namespace muster {

// The parts of a program's next checkpoint: what the processes of a generation's slots wrote.
// Values only: the caller keeps parked calls. Not thread-safe.
class ProgramParts {
 public:
  // Notes a slot's part; a repeat replaces the earlier one. INVALID_ARGUMENT: others wait with
  // parts of another clock's checkpoint, or one of them has a file of the same name; names both
  // slots.
  absl::Status Add(const v1::CommitCheckpointRequest& request);

  // Discards a slot's part, since its task is gone; Clear discards all.
  void Forget(uint32_t slot) { parts_.erase(slot); }
  void Clear() { parts_.clear(); }

  bool any() const { return !parts_.empty(); }
  bool Has(uint32_t slot) const { return parts_.contains(slot); }

  // Returns the request that commits all parts together, as the lowest slot's. REQUIRES: any().
  v1::CommitCheckpointRequest Joined() const;

 private:
  std::map<uint32_t, v1::CommitCheckpointRequest> parts_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_PROGRAM_PARTS_H_
