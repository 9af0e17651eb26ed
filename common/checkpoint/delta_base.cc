#include "common/checkpoint/delta_base.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/partition_file.h"
#include "proto/checkpoint.pb.h"

namespace muster {

absl::StatusOr<absl::optional<uint64_t>> BaseOfFiles(const CheckpointStorage& storage,
                                                     absl::string_view folder,
                                                     const v1::CheckpointManifest& manifest) {
  absl::optional<uint64_t> base;
  for (const v1::CheckpointFile& file : manifest.files()) {
    const std::string uri = JoinUri(folder, file.path());
    const absl::StatusOr<std::unique_ptr<PartitionFileReader>> reader =
        PartitionFileReader::Open(storage, uri);
    if (absl::IsNotFound(reader.status())) {
      return absl::FailedPreconditionError(
          absl::StrCat("the checkpoint ", folder, " cannot be completed: the file of partition ",
                       file.partition(), " is not visible from here (", reader.status().message(),
                       "); checkpoints need a folder that all daemons share"));
    }
    MUSTER_RETURN_IF_ERROR(reader.status());
    if (!(*reader)->header().has_base_clock()) continue;
    const uint64_t file_base = (*reader)->header().base_clock();
    if (base.has_value() && *base != file_base) {
      return absl::FailedPreconditionError(
          absl::StrCat("the checkpoint ", folder, " cannot be completed: ", uri,
                       " goes on from clock ", file_base, ", others from clock ", *base));
    }
    base = file_base;
  }
  return base;
}

}  // namespace muster
