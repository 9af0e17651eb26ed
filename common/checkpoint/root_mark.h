#ifndef MUSTER_COMMON_CHECKPOINT_ROOT_MARK_H_
#define MUSTER_COMMON_CHECKPOINT_ROOT_MARK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/storage.h"

namespace muster {

// The coordinator marks the root of all checkpoints with a small file. A server that does not find
// it sees another folder under the same name, such as a volume of its own pod, where nobody would
// find what it writes.

// Marks a root. OK when it is marked already. Errors as the storage's.
absl::Status MarkCheckpointRoot(CheckpointStorage& storage, absl::string_view root_uri);

// Whether this process can keep checkpoints under a root, and what makes it sure that others will
// find them there.
enum class RootCheck {
  // Files can be written, read and deleted.
  kWritable,
  // That, and the root has been marked.
  kMarked,
};

// FAILED_PRECONDITION: it cannot; says what is wrong and what to do. PERMISSION_DENIED: the same,
// and what is wrong is that nothing may be written there. UNAVAILABLE: the storage does not answer,
// or is full; try again.
absl::Status CheckCheckpointRoot(CheckpointStorage& storage, absl::string_view root_uri,
                                 RootCheck check);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_ROOT_MARK_H_
