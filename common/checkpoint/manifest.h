#ifndef MUSTER_COMMON_CHECKPOINT_MANIFEST_H_
#define MUSTER_COMMON_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <set>
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
// which is written last: a folder with a MANIFEST is a complete checkpoint, one without is none. No
// file is ever replaced: each attempt to write one has a name of its own, and files that no
// MANIFEST names are leftovers. Where two hold a job's parameters, servers its rows and workers its
// dense tensors, the servers' files, one per partition, are followed by the workers'.
//
// A checkpoint is full, or a delta that goes on from another one of the same job, its base: it is
// complete together with that one, and so on down to a full one.
//
// The MANIFEST file is a little-endian u64 length, a v1::CheckpointManifest, and the XXH3 of the
// message as u64.

inline constexpr uint32_t kCheckpointFormatVersion = 2;

// Most bytes of the message in a MANIFEST, or in the header of a partition's file. A file may say
// any length, and a sparse one have it without a byte on the disk; a message in memory can take
// forty times its stored size. A manifest has about 100 bytes a tensor and a partition, a header 70
// a block of 1 MiB: these are for tables of a terabyte in one partition.
inline constexpr uint64_t kMostCheckpointMessageBytes = uint64_t{64} << 20;

// ROOT/JOB, the folder of all checkpoints of a job.
std::string CheckpointJobFolder(absl::string_view root, absl::string_view job_id);
// ROOT/JOB/CLOCK.
std::string CheckpointFolder(absl::string_view root, absl::string_view job_id, uint64_t clock);
// What the name of a partition's file within the checkpoint's folder begins with.
std::string PartitionFileName(uint32_t partition, uint64_t generation);
// … and a whole name, another one each time: so whoever writes a cut of the same clock once more (a
// later generation, round or incarnation) never meets files that a manifest may name already.
std::string NewPartitionFileName(uint32_t partition, uint64_t generation);

// Folder of the checkpoint at `clock` beside the one in `folder`.
std::string CheckpointBeside(absl::string_view folder, uint64_t clock);

// Completes the checkpoint in `folder`: checks that every file is there in the stated size, then
// writes the MANIFEST. The format version and, for a delta, the base's checksum are set here.
// AlreadyExists: there is a MANIFEST, which stays as it is. FailedPrecondition: a file is missing
// or of another size, or the base is. InvalidArgument: fewer files than partitions, or not in order
// of their numbers, or a base that is no earlier one.
absl::Status WriteManifest(CheckpointStorage& storage, absl::string_view folder,
                           const v1::CheckpointManifest& manifest);

// NotFound: no complete checkpoint. DataLoss: the MANIFEST is damaged. FailedPrecondition: its
// format is newer. `checksum`, unless null, gets that of the stored message.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(const CheckpointStorage& storage,
                                                    absl::string_view folder,
                                                    uint64_t* checksum = nullptr);

// The manifest of a delta's base. DataLoss: it is gone, damaged, or not the one that the delta was
// made from. REQUIRES: `manifest`, that of `folder`, is of a delta.
absl::StatusOr<v1::CheckpointManifest> ReadBaseManifest(const CheckpointStorage& storage,
                                                        absl::string_view folder,
                                                        const v1::CheckpointManifest& manifest);

// Reads a file and compares size and checksum. DataLoss names the file, expected and actual value.
absl::Status VerifyCheckpointFile(const CheckpointStorage& storage, absl::string_view folder,
                                  const v1::CheckpointFile& file);

// What was found when all files of a checkpoint were read, and all of those that it goes on from.
struct CheckpointAudit {
  uint64_t clock = 0;
  // Files read, manifests among them, and their bytes.
  uint32_t files = 0;
  uint64_t bytes = 0;
  // Per file that is not as it was written: a DataLoss that names it, expected and actual value.
  std::vector<absl::Status> damage;
};

// NotFound: no complete checkpoint in `folder`. Other errors are the storage's.
absl::StatusOr<CheckpointAudit> AuditCheckpoint(const CheckpointStorage& storage,
                                                absl::string_view folder);

// The same; the first damage is the error.
absl::Status VerifyCheckpoint(const CheckpointStorage& storage, absl::string_view folder);

// What of a job's checkpoints stays when leftovers are deleted.
struct LeftoverLimits {
  // Clocks of the checkpoints that count; any other folder is what a cut left behind.
  std::set<uint64_t> kept;
  // No cut at this clock or before it is under way any more, but for later generations' …
  uint64_t reached = 0;
  // … than this one, whose files stay.
  uint64_t generation = 0;
};

// Deletes what cuts left behind that were not committed (their job went back, or lost the task that
// would have committed them): whole folders, and in that of the newest checkpoint kept, files that
// its MANIFEST does not name. Repeating it is safe.
absl::Status DeleteLeftovers(CheckpointStorage& storage, absl::string_view job_folder,
                             const LeftoverLimits& limits);

// Makes a complete checkpoint an incomplete one; its files stay. OK when there is none.
absl::Status DeleteManifest(CheckpointStorage& storage, absl::string_view folder);

// Deletes one checkpoint, its MANIFEST before the files that it names: a crash in between leaves an
// incomplete one. OK when there is none.
absl::Status DeleteCheckpoint(CheckpointStorage& storage, absl::string_view folder);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_MANIFEST_H_
