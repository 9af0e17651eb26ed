#ifndef MUSTER_COMMON_CHECKPOINT_WRITE_FAILURE_H_
#define MUSTER_COMMON_CHECKPOINT_WRITE_FAILURE_H_

#include "absl/status/status.h"

namespace muster {

// Returns whether a write to a CheckpointStorage that failed with this status may succeed later:
// the storage is full, read-only, gone for now or does not answer. False when the request was wrong
// or data are lost.
bool MayBeWrittenLater(const absl::Status& status);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_WRITE_FAILURE_H_
