#ifndef MUSTER_COMMON_CHECKPOINT_ROOT_MARK_H_
#define MUSTER_COMMON_CHECKPOINT_ROOT_MARK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/storage.h"

namespace muster {

// The coordinator marks the root of all checkpoints with a small file. A server that lacks the mark
// sees another folder under the same name, such as a volume of its own pod, where nobody would find
// its files.

// Marks a root. OK when it is marked already. Errors are the storage's.
absl::Status MarkCheckpointRoot(CheckpointStorage& storage, absl::string_view root_uri);

// The extent of a check of a root.
enum class RootCheck {
  // This process can write, read and delete files there.
  kWritable,
  // Also, the root is marked, so others will find the files.
  kMarked,
};

// Checks a root. FAILED_PRECONDITION: the check failed; says what is wrong and what to do.
// PERMISSION_DENIED: this process may not write there. UNAVAILABLE: the storage does not answer, or
// is full; try again.
absl::Status CheckCheckpointRoot(CheckpointStorage& storage, absl::string_view root_uri,
                                 RootCheck check);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_ROOT_MARK_H_
