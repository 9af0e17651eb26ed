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
// which is written last: a folder without MANIFEST is no checkpoint. No file is ever replaced: each
// attempt to write one has its own name, and files that no MANIFEST names are leftovers. Where
// servers hold a job's rows and workers its dense tensors, the servers' files, one per partition,
// come before the workers'. Where ranks divide the parameters, each rank writes one file instead;
// the manifest counts these files.
//
// A program's checkpoint has the files that its processes wrote, in no format of Muster's. The
// MANIFEST has the relative paths that the program gave them; in the folder they have plain names
// like all others.
//
// A checkpoint is full, or a delta that goes on from an earlier one of the same job, its base, down
// to a full one.
//
// The MANIFEST file is a little-endian u64 length, a v1::CheckpointManifest, and the XXH3 of the
// message as u64.

inline constexpr uint32_t kCheckpointFormatVersion = 2;
// The version of a MANIFEST that has files of ranks. Earlier readers would take them for files of
// partitions.
inline constexpr uint32_t kRankFilesFormatVersion = 3;
// The version of a program's MANIFEST. Earlier readers would find no tensors in it.
inline constexpr uint32_t kProgramFormatVersion = 4;

// The most bytes of the message in a MANIFEST or in a partition file's header. A damaged or sparse
// file may claim any length, and a message in memory can take forty times its stored size. A
// manifest has about 100 bytes per tensor and partition, a header 70 per block of 1 MiB: the limit
// allows for a terabyte of tables in one partition.
inline constexpr uint64_t kMostCheckpointMessageBytes = uint64_t{64} << 20;

// Returns ROOT/JOB, the folder of all checkpoints of a job.
std::string CheckpointJobFolder(absl::string_view root, absl::string_view job_id);
// Returns ROOT/JOB/CLOCK.
std::string CheckpointFolder(absl::string_view root, absl::string_view job_id, uint64_t clock);
// Returns the prefix of the name of a partition's file within the checkpoint's folder.
std::string PartitionFileName(uint32_t partition, uint64_t generation);
// Returns a whole name, another one at each call: a later generation, round or incarnation that
// writes a cut of the same clock again never meets files that a manifest may name already.
std::string NewPartitionFileName(uint32_t partition, uint64_t generation);

// Returns whether a program's file may have this name: a relative path without empty parts, "." and
// "..", of at most 1,024 bytes without NUL bytes.
bool IsProgramFileName(absl::string_view name);

// Where a program has parameters on servers, its checkpoints have the files of the servers' cut of
// the same clock, too, under names in a folder that the program itself may not use.
//
// Returns the name of a partition's file.
std::string ServedFileName(uint32_t partition);
// Returns whether a name is that folder's, or lies in it.
bool IsInServedFolder(absl::string_view name);
// Returns the manifest of the cut alone, as if the servers' files were all of the checkpoint.
// FailedPrecondition: the program had no parameters on servers. DataLoss: a file is missing.
// REQUIRES: `manifest` is a program's.
absl::StatusOr<v1::CheckpointManifest> ServedManifest(const v1::CheckpointManifest& manifest);

// Returns the folder of the same job's checkpoint at `clock`.
std::string CheckpointBeside(absl::string_view folder, uint64_t clock);

// Completes the checkpoint in `folder`: checks that every file is there with the stated size, then
// writes the MANIFEST. Sets the format version and, for a delta, the base's checksum.
// AlreadyExists: there is a MANIFEST, which stays as it is. FailedPrecondition: a file or the base
// is missing or of another size. InvalidArgument: there are fewer files than partitions, or other
// files beside those of the ranks than one per partition; they are not in order of their numbers;
// the base is not earlier; or a program has no files, or wrong or equal names for them.
absl::Status WriteManifest(CheckpointStorage& storage, absl::string_view folder,
                           const v1::CheckpointManifest& manifest);

// Reads the MANIFEST in `folder`. `checksum`, unless null, gets the stored message's checksum.
// NotFound: no complete checkpoint. DataLoss: the MANIFEST is damaged. FailedPrecondition: its
// format is newer.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(const CheckpointStorage& storage,
                                                    absl::string_view folder,
                                                    uint64_t* checksum = nullptr);

// Reads the manifest of a delta's base. DataLoss: the base is gone, damaged, or not the one that
// the delta was made from. REQUIRES: `manifest` is the one in `folder`, and of a delta.
absl::StatusOr<v1::CheckpointManifest> ReadBaseManifest(const CheckpointStorage& storage,
                                                        absl::string_view folder,
                                                        const v1::CheckpointManifest& manifest);

// Reads a file and checks size and checksum. DataLoss names the file, expected and actual value.
absl::Status VerifyCheckpointFile(const CheckpointStorage& storage, absl::string_view folder,
                                  const v1::CheckpointFile& file);

// The result of reading all files of a checkpoint and its chain of bases.
struct CheckpointAudit {
  uint64_t clock = 0;
  // Files read, manifests among them, and their bytes.
  uint32_t files = 0;
  uint64_t bytes = 0;
  // A DataLoss for each damaged file, which names the file, expected and actual value.
  std::vector<absl::Status> damage;
};

// Reads and checks all files. NotFound: no complete checkpoint in `folder`. Other errors are the
// storage's.
absl::StatusOr<CheckpointAudit> AuditCheckpoint(const CheckpointStorage& storage,
                                                absl::string_view folder);

// Does the same; the first damage is the error.
absl::Status VerifyCheckpoint(const CheckpointStorage& storage, absl::string_view folder);

// The part of a job's checkpoints that stays when leftovers are deleted.
struct LeftoverLimits {
  // Clocks of the checkpoints that count; any other folder is a leftover of a cut.
  std::set<uint64_t> kept;
  // No cut at this clock or an earlier one is still under way, except in generations after
  // `generation`, whose files stay.
  uint64_t reached = 0;
  uint64_t generation = 0;
};

// Deletes the leftovers of cuts that were never committed (the job rolled back, or lost the task
// that would have committed them): whole folders, and in the folder of the newest checkpoint kept,
// files that its MANIFEST does not name. Repeating it is safe.
absl::Status DeleteLeftovers(CheckpointStorage& storage, absl::string_view job_folder,
                             const LeftoverLimits& limits);

// Makes a checkpoint incomplete; its files stay. OK when there is none.
absl::Status DeleteManifest(CheckpointStorage& storage, absl::string_view folder);

// Deletes one checkpoint, its MANIFEST first: a crash in between leaves an incomplete one. OK when
// there is none.
absl::Status DeleteCheckpoint(CheckpointStorage& storage, absl::string_view folder);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_MANIFEST_H_
