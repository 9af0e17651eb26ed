#include "server/coordinator/checkpoints/storage_checkpoint_archive.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/delta_base.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/write_failure.h"
#include "common/text/printable.h"
#include "proto/checkpoint.pb.h"
#include "proto/job_service.pb.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

// Returns the file's name; servers may send its full path.
absl::string_view NameIn(const std::string& folder, absl::string_view path) {
  return absl::StripPrefix(path, absl::StrCat(folder, "/"));
}

// Checks a task's name of a file: it may not lead out of the folder, or to the manifest.
absl::Status CheckPlainName(absl::string_view file) {
  if (absl::StartsWith(file, "partition-") && file.find('/') == absl::string_view::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", PrintableLine(file), "\" is no name of a partition's file"));
}

bool IsOfProgram(const v1::CommitCheckpointRequest& request) {
  return request.program_part() != v1::CommitCheckpointRequest::PROGRAM_PART_UNSPECIFIED;
}

// Adds the request's files in the manifest's order: by number, a program's by name.
void AddFiles(const v1::CommitCheckpointRequest& request, const std::string& folder,
              v1::CheckpointManifest& manifest) {
  std::vector<v1::CutFile> files(request.files().begin(), request.files().end());
  std::sort(files.begin(), files.end(), [](const v1::CutFile& a, const v1::CutFile& b) {
    return std::pair(a.partition(), absl::string_view(a.name())) <
           std::pair(b.partition(), absl::string_view(b.name()));
  });
  for (const v1::CutFile& file : files) {
    v1::CheckpointFile* stored = manifest.add_files();
    stored->set_partition(manifest.program() ? manifest.files_size() - 1 : file.partition());
    stored->set_path(std::string(NameIn(folder, file.path())));
    stored->set_bytes(file.bytes());
    stored->set_checksum(file.checksum());
    stored->set_name(file.name());
  }
}

}  // namespace

StorageCheckpointArchive::StorageCheckpointArchive(CheckpointStorage& storage, std::string root)
    : storage_(storage), root_(std::move(root)), shipped_(storage, root_) {}

absl::StatusOr<CompletedCheckpoint> StorageCheckpointArchive::Complete(
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
  manifest.set_data_preparation(request.data_preparation());
  manifest.set_rank_files(request.rank_files());
  manifest.set_program(IsOfProgram(request));
  AddFiles(request, folder, manifest);
  // A program's files are in no format that could name a base.
  const absl::StatusOr<absl::optional<uint64_t>> base =
      manifest.program() ? absl::optional<uint64_t>() : BaseOfFiles(storage_, folder, manifest);
  absl::Status written = base.status();
  if (written.ok() && base->has_value()) {
    manifest.set_base_clock(**base);
    const absl::Status there =
        ReadManifest(storage_, CheckpointFolder(root_, task.job_id(), **base)).status();
    if (absl::IsNotFound(there) || absl::IsDataLoss(there)) {
      return absl::FailedPreconditionError(
          absl::StrCat("checkpoint of job ", task.job_id(), " at clock ", request.clock(),
                       " goes on from that at clock ", **base,
                       ", which cannot be read: ", there.message(), "; take the next one whole"));
    }
  }
  // A manifest that is there belongs to a checkpoint that does not count.
  if (written.ok()) written = DeleteManifest(storage_, folder);
  if (written.ok()) written = WriteManifest(storage_, folder, manifest);
  if (absl::IsFailedPrecondition(written) || absl::IsDataLoss(written)) {
    return absl::DataLossError(absl::StrCat("checkpoint of job ", task.job_id(), " at clock ",
                                            request.clock(), ": ", written.message()));
  }
  if (MayBeWrittenLater(written)) {
    return absl::FailedPreconditionError(absl::StrCat("checkpoint of job ", task.job_id(),
                                                      " at clock ", request.clock(),
                                                      " cannot be completed: ", written.message()));
  }
  MUSTER_RETURN_IF_ERROR(written);
  CompletedCheckpoint completed{.folder = folder, .base_clock = std::nullopt};
  if (base->has_value()) completed.base_clock = **base;
  return completed;
}

absl::Status StorageCheckpointArchive::RemoveCheckpoint(absl::string_view folder) {
  return DeleteCheckpoint(storage_, folder);
}

absl::Status StorageCheckpointArchive::RemoveLeftovers(absl::string_view job_id,
                                                       const LeftoverLimits& limits) {
  return DeleteLeftovers(storage_, CheckpointJobFolder(root_, job_id), limits);
}

absl::Status StorageCheckpointArchive::RemoveFiles(absl::string_view job_id, uint64_t clock,
                                                   const std::vector<std::string>& files) {
  const std::string folder = CheckpointFolder(root_, job_id, clock);
  for (const std::string& file : files) {
    const absl::string_view name = NameIn(folder, file);
    MUSTER_RETURN_IF_ERROR(CheckPlainName(name));
    MUSTER_RETURN_IF_ERROR(storage_.DeleteRecursively(JoinUri(folder, name)));
  }
  return absl::OkStatus();
}

absl::Status StorageCheckpointArchive::RemoveJob(absl::string_view job_id) {
  return storage_.DeleteRecursively(CheckpointJobFolder(root_, job_id));
}

absl::StatusOr<v1::CheckpointStatus> StorageCheckpointArchive::Describe(
    absl::string_view folder) const {
  MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest,
                          CatchOutOfMemory(absl::StrCat("the manifest of ", folder),
                                           [&] { return ReadManifest(storage_, folder); }));
  v1::CheckpointStatus status;
  status.set_clock(manifest.clock());
  status.set_uri(std::string(folder));
  if (manifest.has_base_clock()) status.set_base_clock(manifest.base_clock());
  status.set_files(manifest.files_size());
  for (const v1::CheckpointFile& file : manifest.files()) {
    status.set_bytes(status.bytes() + file.bytes());
  }
  status.set_created_unix_ms(manifest.created_unix_ms());
  return status;
}

absl::StatusOr<std::string> StorageCheckpointArchive::DataPreparation(
    absl::string_view folder) const {
  MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest,
                          CatchOutOfMemory(absl::StrCat("the manifest of ", folder),
                                           [&] { return ReadManifest(storage_, folder); }));
  return manifest.data_preparation();
}

absl::StatusOr<v1::VerifyCheckpointReply> StorageCheckpointArchive::Verify(
    absl::string_view folder) const {
  MUSTER_ASSIGN_OR_RETURN(const CheckpointAudit audit,
                          CatchOutOfMemory(absl::StrCat("reading the checkpoint ", folder),
                                           [&] { return AuditCheckpoint(storage_, folder); }));
  v1::VerifyCheckpointReply reply;
  reply.set_clock(audit.clock);
  reply.set_files(audit.files);
  reply.set_bytes(audit.bytes);
  for (const absl::Status& damage : audit.damage) {
    reply.add_damage(std::string(damage.message()));
  }
  return reply;
}

absl::Status StorageCheckpointArchive::Export(
    absl::string_view folder, ExportedValues values,
    absl::FunctionRef<absl::Status(absl::string_view)> sink) const {
  return CatchOutOfMemory(absl::StrCat("exporting the checkpoint ", folder), [&]() -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                            CheckpointReader::Open(storage_, folder));
    return ExportSafetensors(*reader, values, [&](absl::Span<const std::byte> bytes) {
      return sink({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    });
  });
}

}  // namespace muster
