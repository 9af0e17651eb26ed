#ifndef MUSTER_SERVER_COORDINATOR_JOB_PROGRAM_PARTS_H_
#define MUSTER_SERVER_COORDINATOR_JOB_PROGRAM_PARTS_H_

#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/task_service.pb.h"

namespace muster {

// Checks that a whole checkpoint of a program has what the job's servers hold in so many
// partitions: a file of each, and the schema. The job could not go back to a checkpoint without
// them. INVALID_ARGUMENT: something is missing.
absl::Status CheckServedFiles(const v1::CommitCheckpointRequest& whole, int partitions);

// The parts of a program's next checkpoint: what the processes of a generation's slots wrote.
// Values only: the caller keeps parked calls. Not thread-safe.
class ProgramParts {
 public:
  // Notes a slot's part that comes at `now`, a monotonic time; a repeat replaces the earlier one.
  // INVALID_ARGUMENT: others wait with parts of another clock's checkpoint, or one of them has a
  // file of the same name; names both slots. FAILED_PRECONDITION: the checkpoint was given up.
  absl::Status Add(const v1::CommitCheckpointRequest& request, absl::Duration now);

  // Discards all parts, and refuses those of this checkpoint that are still to come. REQUIRES:
  // any().
  void GiveUp();

  // Discards a slot's part, since its task is gone; Clear discards all.
  void Forget(uint32_t slot) { parts_.erase(slot); }
  void Clear() { parts_.clear(); }

  bool any() const { return !parts_.empty(); }
  bool Has(uint32_t slot) const { return parts_.contains(slot); }
  // Returns the clock of the checkpoint that the parts are of. REQUIRES: any().
  uint64_t clock() const { return parts_.begin()->second.clock(); }
  // Returns when the first of the parts came. REQUIRES: any().
  absl::Duration since() const { return since_; }
  // Excludes a pause from the time since then.
  void Excuse(absl::Duration pause) { since_ += pause; }

  // Returns the request that commits all parts together, as the lowest slot's. REQUIRES: any().
  v1::CommitCheckpointRequest Joined() const;

 private:
  std::map<uint32_t, v1::CommitCheckpointRequest> parts_;
  absl::Duration since_;
  // Generation and clock of the last checkpoint that was given up.
  std::pair<uint64_t, uint64_t> given_up_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_PROGRAM_PARTS_H_
