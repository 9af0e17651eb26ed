#ifndef MUSTER_COMMON_CHECKPOINT_DELTA_BASE_H_
#define MUSTER_COMMON_CHECKPOINT_DELTA_BASE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/checkpoint/storage.h"

namespace muster {

namespace v1 {
class CheckpointManifest;
}  // namespace v1

// The clock that the files of a cut in `folder` go on from, as they say themselves; absent: all are
// whole. What a manifest that is yet to be written has to name. FailedPrecondition: a file is not
// there, or two go on from different clocks. DataLoss: one is damaged.
absl::StatusOr<absl::optional<uint64_t>> BaseOfFiles(const CheckpointStorage& storage,
                                                     absl::string_view folder,
                                                     const v1::CheckpointManifest& manifest);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_DELTA_BASE_H_
