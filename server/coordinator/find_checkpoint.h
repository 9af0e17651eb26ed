#ifndef MUSTER_SERVER_COORDINATOR_FIND_CHECKPOINT_H_
#define MUSTER_SERVER_COORDINATOR_FIND_CHECKPOINT_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "proto/job_record.pb.h"

namespace muster {

// A job's checkpoint at `clock`, or its last one; valid as long as the record stays as it is.
// FAILED_PRECONDITION: it has none yet. NOT_FOUND: none at this clock; names those that there are.
absl::StatusOr<const v1::CheckpointRecord*> FindCheckpoint(const v1::JobRecord& record,
                                                           std::optional<uint64_t> clock);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_FIND_CHECKPOINT_H_
