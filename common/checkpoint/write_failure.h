#ifndef MUSTER_COMMON_CHECKPOINT_WRITE_FAILURE_H_
#define MUSTER_COMMON_CHECKPOINT_WRITE_FAILURE_H_

#include "absl/status/status.h"

namespace muster {

// Whether writing to a CheckpointStorage that failed so may succeed later: no room, a file system
// that is read-only or gone for now, a disk that does not answer. Not so: what was asked for is
// wrong, or data are lost.
bool MayBeWrittenLater(const absl::Status& status);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_WRITE_FAILURE_H_
