#ifndef MUSTER_COMMON_CHECKPOINT_MANIFEST_H_
#define MUSTER_COMMON_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/storage.h"

namespace muster {

namespace v1 {
class CheckpointFile;
class CheckpointManifest;
}  // namespace v1

// A checkpoint is the folder ROOT/JOB/CLOCK with one file per partition and the file MANIFEST,
// which is written last: a folder with a MANIFEST is a complete checkpoint, one without is none.
// Where two hold a job's parameters, servers its rows and workers its dense tensors, the servers'
// files, one per partition, are followed by the workers'.
// The MANIFEST file is a little-endian u64 length, a v1::CheckpointManifest, and the XXH3 of the
// message as u64.

inline constexpr uint32_t kCheckpointFormatVersion = 1;

// ROOT/JOB, the folder of all checkpoints of a job.
std::string CheckpointJobFolder(absl::string_view root, absl::string_view job_id);
// ROOT/JOB/CLOCK.
std::string CheckpointFolder(absl::string_view root, absl::string_view job_id, uint64_t clock);
// Name of a partition's file within the checkpoint's folder. The generation is in it, so that a
// generation that repeats a clock never touches files that a manifest may name already.
std::string PartitionFileName(uint32_t partition, uint64_t generation);

// Completes the checkpoint in `folder`: checks that every file is there in the stated size, then
// writes the MANIFEST. The format version is set here. FailedPrecondition: a file is missing or of
// another size. InvalidArgument: fewer files than partitions, or not in order of their numbers.
absl::Status WriteManifest(CheckpointStorage& storage, absl::string_view folder,
                           const v1::CheckpointManifest& manifest);

// NotFound: no complete checkpoint. DataLoss: the MANIFEST is damaged. FailedPrecondition: its
// format is newer.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(const CheckpointStorage& storage,
                                                    absl::string_view folder);

// Reads a file and compares size and checksum. DataLoss names the file, expected and actual value.
absl::Status VerifyCheckpointFile(const CheckpointStorage& storage, absl::string_view folder,
                                  const v1::CheckpointFile& file);

// The same for all files of the manifest in `folder`.
absl::Status VerifyCheckpoint(const CheckpointStorage& storage, absl::string_view folder);

struct CheckpointInfo {
  uint64_t clock = 0;
  std::string folder;
};

// The complete checkpoints in a job's folder, oldest clock first; empty when the folder does not
// exist.
absl::StatusOr<std::vector<CheckpointInfo>> ListCheckpoints(const CheckpointStorage& storage,
                                                            absl::string_view job_folder);

// Deletes all but the `keep` (at least 1) newest complete checkpoints, and incomplete ones older
// than the newest complete one. A MANIFEST goes before the files it names. Repeating it after a
// failure is safe.
absl::Status DeleteOldCheckpoints(CheckpointStorage& storage, absl::string_view job_folder,
                                  uint32_t keep);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_MANIFEST_H_
