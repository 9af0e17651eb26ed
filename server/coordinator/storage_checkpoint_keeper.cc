#include "server/coordinator/storage_checkpoint_keeper.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "proto/checkpoint.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

StorageCheckpointKeeper::StorageCheckpointKeeper(CheckpointStorage& storage, std::string root)
    : storage_(storage), root_(std::move(root)) {}

absl::StatusOr<std::string> StorageCheckpointKeeper::Complete(
    const v1::CommitCheckpointRequest& request, absl::Time created) {
  const v1::TaskIdentity& task = request.task();
  const std::string folder = CheckpointFolder(root_, task.job_id(), request.clock());
  v1::CheckpointManifest manifest;
  manifest.set_job_id(task.job_id());
  manifest.set_generation(task.generation());
  manifest.set_clock(request.clock());
  manifest.set_created_unix_ms(absl::ToUnixMillis(created));
  if (!manifest.mutable_schema()->ParseFromString(request.schema())) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint of job ", task.job_id(),
                                                   " at clock ", request.clock(),
                                                   ": schema is no serialised TablesSchema"));
  }
  std::vector<v1::CutFile> files(request.files().begin(), request.files().end());
  std::sort(files.begin(), files.end(), [](const v1::CutFile& a, const v1::CutFile& b) {
    return a.partition() < b.partition();
  });
  for (const v1::CutFile& file : files) {
    v1::CheckpointFile* stored = manifest.add_files();
    stored->set_partition(file.partition());
    // Servers may name files by their full place.
    stored->set_path(std::string(absl::StripPrefix(file.path(), absl::StrCat(folder, "/"))));
    stored->set_bytes(file.bytes());
    stored->set_checksum(file.checksum());
  }
  const absl::Status written = WriteManifest(storage_, folder, manifest);
  if (written.code() == absl::StatusCode::kFailedPrecondition) {
    return absl::DataLossError(absl::StrCat("checkpoint of job ", task.job_id(), " at clock ",
                                            request.clock(), ": ", written.message()));
  }
  MUSTER_RETURN_IF_ERROR(written);
  return folder;
}

absl::Status StorageCheckpointKeeper::RemoveCheckpoint(absl::string_view folder) {
  return storage_.DeleteRecursively(folder);
}

absl::Status StorageCheckpointKeeper::RemoveJob(absl::string_view job_id) {
  return storage_.DeleteRecursively(CheckpointJobFolder(root_, job_id));
}

absl::Status StorageCheckpointKeeper::Export(
    absl::string_view folder, absl::FunctionRef<absl::Status(absl::string_view)> sink) const {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                          CheckpointReader::Open(storage_, folder));
  return ExportSafetensors(*reader, [&](absl::Span<const std::byte> bytes) {
    return sink({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
}

}  // namespace muster
