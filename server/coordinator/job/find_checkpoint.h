#ifndef MUSTER_SERVER_COORDINATOR_JOB_FIND_CHECKPOINT_H_
#define MUSTER_SERVER_COORDINATOR_JOB_FIND_CHECKPOINT_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "proto/job_record.pb.h"

namespace muster {

// Returns the job's last sound checkpoint, or null. A checkpoint is sound if no damage is known of
// it or of those that it goes on from. Valid while the record is unchanged.
const v1::CheckpointRecord* LastSound(const v1::JobRecord& record);
// Returns the clock of that checkpoint, or `otherwise` if there is none.
uint64_t LastSoundClock(const v1::JobRecord& record, uint64_t otherwise);

// Returns whether the checkpoint is sound.
bool IsSound(const v1::JobRecord& record, const v1::CheckpointRecord& checkpoint);

// Returns the job's checkpoint at `clock`, or its last sound one, valid while the record is
// unchanged. FAILED_PRECONDITION: the job has none, or none yet. NOT_FOUND names those there are.
absl::StatusOr<const v1::CheckpointRecord*> FindCheckpoint(const v1::JobRecord& record,
                                                           std::optional<uint64_t> clock);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_FIND_CHECKPOINT_H_
