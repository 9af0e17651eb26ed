#ifndef MUSTER_SERVER_COORDINATOR_CHECKPOINTS_MOVED_ROOT_H_
#define MUSTER_SERVER_COORDINATOR_CHECKPOINTS_MOVED_ROOT_H_

#include "absl/status/status.h"
#include "server/coordinator/checkpoints/checkpoint_archive.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// Has jobs' records name their checkpoints under the archive's root, if they are there now: a
// backup may be restored under another path than the one that the records name. A checkpoint that
// can be read where its record says stays there, so a coordinator may be given a new root while old
// jobs keep theirs. Reads a manifest for each checkpoint outside the root. Errors are the store's.
absl::Status FollowMovedRoot(JobTable& jobs, const CheckpointArchive& archive);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CHECKPOINTS_MOVED_ROOT_H_
