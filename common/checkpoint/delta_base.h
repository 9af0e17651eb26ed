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

// Returns the clock of the base that the files of a cut in `folder` name, which its manifest has to
// name, too; absent: all files are full. FailedPrecondition: a file is missing, or two name
// different clocks. DataLoss: a file is damaged.
absl::StatusOr<absl::optional<uint64_t>> BaseOfFiles(const CheckpointStorage& storage,
                                                     absl::string_view folder,
                                                     const v1::CheckpointManifest& manifest);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_DELTA_BASE_H_
