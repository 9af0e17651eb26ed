#ifndef MUSTER_SERVER_COORDINATOR_CHECKPOINTS_FIND_CHECKPOINT_H_
#define MUSTER_SERVER_COORDINATOR_CHECKPOINTS_FIND_CHECKPOINT_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "proto/job_record.pb.h"

namespace muster {

// The last checkpoint of a job that can be read as far as is known: nothing was found wrong with
// it, nor with those that it goes on from; null: there is none. Valid as long as the record stays
// as it is.
const v1::CheckpointRecord* LastSound(const v1::JobRecord& record);
// … its clock; `otherwise`: there is none.
uint64_t LastSoundClock(const v1::JobRecord& record, uint64_t otherwise);

// Whether it is one of those.
bool IsSound(const v1::JobRecord& record, const v1::CheckpointRecord& checkpoint);

// A job's checkpoint at `clock`, or its last sound one; valid as long as the record stays as it is.
// FAILED_PRECONDITION: it has none, or none yet. NOT_FOUND: none at this clock; names those that
// there are.
absl::StatusOr<const v1::CheckpointRecord*> FindCheckpoint(const v1::JobRecord& record,
                                                           std::optional<uint64_t> clock);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CHECKPOINTS_FIND_CHECKPOINT_H_
