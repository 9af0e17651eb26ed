#include "common/checkpoint/manifest.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <random>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little, "stored integers are little-endian");

constexpr absl::string_view kManifestName = "MANIFEST";
// The folder of servers' files among a program's.
constexpr absl::string_view kServedFolder = "muster-servers";
// In the name of a partition's file, before the number.
constexpr absl::string_view kGeneration = "-generation-";
constexpr absl::string_view kOfNoUse =
    "; the checkpoint is of no use, restore from an earlier one or a backup";
constexpr size_t kReadBytes = 1 << 20;
// The longest name of a program's file.
constexpr size_t kMostNameBytes = 1024;
// Length and checksum around the message.
constexpr uint64_t kManifestFrame = 2 * sizeof(uint64_t);

uint64_t ReadU64(absl::string_view bytes) {
  uint64_t value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

void AppendU64(uint64_t value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Checkpoints below a job's folder, complete or not, by clock.
absl::StatusOr<std::map<uint64_t, std::string>> ListFolders(const CheckpointStorage& storage,
                                                            absl::string_view job_folder) {
  std::map<uint64_t, std::string> folders;
  absl::StatusOr<std::vector<std::string>> names = storage.List(job_folder);
  if (absl::IsNotFound(names.status())) return folders;
  MUSTER_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    uint64_t clock = 0;
    // A name must read back the same, so that no clock has two folders.
    if (absl::SimpleAtoi(name, &clock) && absl::StrCat(clock) == name) {
      folders.emplace(clock, JoinUri(job_folder, name));
    }
  }
  return folders;
}

// Returns whether a file's name says that it is of a later generation.
bool IsLater(absl::string_view name, uint64_t generation) {
  const size_t at = name.find(kGeneration);
  if (at == absl::string_view::npos) return false;
  const absl::string_view rest = name.substr(at + kGeneration.size());
  uint64_t of_file = 0;
  return absl::SimpleAtoi(rest.substr(0, rest.find('-')), &of_file) && of_file > generation;
}

// Deletes the folder of a cut that was not committed, unless a later generation is at it.
absl::Status DeleteFolder(CheckpointStorage& storage, const std::string& folder,
                          uint64_t generation) {
  const absl::StatusOr<std::vector<std::string>> names = storage.List(folder);
  if (names.ok() && std::any_of(names->begin(), names->end(), [&](const std::string& name) {
        return IsLater(name, generation);
      })) {
    return absl::OkStatus();
  }
  return DeleteCheckpoint(storage, folder);
}

// Deletes the files in a checkpoint's folder that it does not consist of.
absl::Status DeleteUnnamed(CheckpointStorage& storage, const std::string& folder,
                           uint64_t generation) {
  MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, ReadManifest(storage, folder));
  std::set<std::string> named = {std::string(kManifestName)};
  for (const v1::CheckpointFile& file : manifest.files()) named.insert(file.path());
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names, storage.List(folder));
  for (const std::string& name : names) {
    if (named.contains(name) || IsLater(name, generation)) continue;
    MUSTER_RETURN_IF_ERROR(storage.DeleteRecursively(JoinUri(folder, name)));
  }
  return absl::OkStatus();
}

// The MANIFEST's bytes. DataLoss: more than a manifest can have.
absl::StatusOr<std::string> ReadManifestFile(const CheckpointStorage& storage,
                                             absl::string_view uri) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<StorageReader> file, storage.Open(uri));
  if (file->size() > kManifestFrame + kMostCheckpointMessageBytes) {
    return absl::DataLossError(absl::StrCat("the manifest ", uri, " has ", file->size(),
                                            " bytes, at most ", kMostCheckpointMessageBytes, " + ",
                                            kManifestFrame, " are possible", kOfNoUse));
  }
  std::string bytes(file->size(), '\0');
  MUSTER_RETURN_IF_ERROR(file->Read(0, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
  return bytes;
}

absl::Status CheckProgramFiles(const v1::CheckpointManifest& manifest) {
  if (manifest.files().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the manifest of job ", manifest.job_id(),
                                                   " at clock ", manifest.clock(),
                                                   " names no file of the program"));
  }
  const std::string* last = nullptr;
  for (const v1::CheckpointFile& file : manifest.files()) {
    if (!IsProgramFileName(file.name()) || (last != nullptr && *last >= file.name())) {
      return absl::InvalidArgumentError(
          absl::StrCat("the manifest of job ", manifest.job_id(), " at clock ", manifest.clock(),
                       " names the program's file '", PrintableLine(file.name()),
                       "'; relative paths in order, each once, are expected"));
    }
    last = &file.name();
  }
  return absl::OkStatus();
}

absl::Status CheckNumberOfFiles(const v1::CheckpointManifest& manifest) {
  const uint64_t files = manifest.files_size();
  const uint64_t partitions = manifest.schema().partitions();
  const uint64_t ranks = manifest.rank_files();
  const bool all_there =
      ranks == 0 ? files >= partitions : files == ranks || files == partitions + ranks;
  if (all_there) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the manifest of job ", manifest.job_id(), " at clock ", manifest.clock(),
                   " names ", files, " files for ", partitions, " partitions",
                   ranks == 0 ? "" : absl::StrCat(" and ", ranks, " ranks")));
}

absl::Status CheckFiles(const v1::CheckpointManifest& manifest) {
  MUSTER_RETURN_IF_ERROR(manifest.program() ? CheckProgramFiles(manifest)
                                            : CheckNumberOfFiles(manifest));
  if (manifest.has_base_clock() && manifest.base_clock() >= manifest.clock()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the manifest of job ", manifest.job_id(), " at clock ", manifest.clock(),
                     " goes on from clock ", manifest.base_clock(), ", which is not earlier"));
  }
  for (int i = 0; i < manifest.files_size(); ++i) {
    const v1::CheckpointFile& file = manifest.files(i);
    if (file.partition() != static_cast<uint32_t>(i)) {
      return absl::InvalidArgumentError(
          absl::StrCat("file ", i, " of the manifest of job ", manifest.job_id(), " at clock ",
                       manifest.clock(), " is of partition ", file.partition(), ", expected ", i));
    }
    if (file.path().empty() || file.path().find('/') != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("the manifest of job ", manifest.job_id(), " at clock ", manifest.clock(),
                       " names the file '", file.path(), "'; a plain name is expected"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string CheckpointJobFolder(absl::string_view root, absl::string_view job_id) {
  return JoinUri(root, job_id);
}

std::string CheckpointFolder(absl::string_view root, absl::string_view job_id, uint64_t clock) {
  return JoinUri(CheckpointJobFolder(root, job_id), absl::StrCat(clock));
}

bool IsProgramFileName(absl::string_view name) {
  if (name.size() > kMostNameBytes || name.find('\0') != absl::string_view::npos) return false;
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

std::string ServedFileName(uint32_t partition) {
  return absl::StrCat(kServedFolder, "/partition-", partition);
}

bool IsInServedFolder(absl::string_view name) {
  return absl::ConsumePrefix(&name, kServedFolder) && (name.empty() || name.front() == '/');
}

absl::StatusOr<v1::CheckpointManifest> ServedManifest(const v1::CheckpointManifest& manifest) {
  if (!manifest.has_schema() || manifest.schema().partitions() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint of job ", manifest.job_id(), " at clock ", manifest.clock(),
                     " has files that a program wrote (model.program); only the program knows "
                     "what is in them"));
  }
  absl::flat_hash_map<absl::string_view, const v1::CheckpointFile*> files;
  for (const v1::CheckpointFile& file : manifest.files()) files[file.name()] = &file;
  v1::CheckpointManifest served = manifest;
  served.set_program(false);
  served.clear_files();
  for (uint32_t partition = 0; partition < manifest.schema().partitions(); ++partition) {
    const auto found = files.find(ServedFileName(partition));
    if (found == files.end()) {
      return absl::DataLossError(absl::StrCat("the checkpoint of job ", manifest.job_id(),
                                              " at clock ", manifest.clock(),
                                              " names no file of partition ", partition, kOfNoUse));
    }
    v1::CheckpointFile& file = *served.add_files();
    file = *found->second;
    file.set_partition(partition);
    file.clear_name();
  }
  return served;
}

std::string CheckpointBeside(absl::string_view folder, uint64_t clock) {
  while (absl::EndsWith(folder, "/")) folder.remove_suffix(1);
  return JoinUri(folder.substr(0, folder.rfind('/')), absl::StrCat(clock));
}

std::string PartitionFileName(uint32_t partition, uint64_t generation) {
  return absl::StrCat("partition-", partition, kGeneration, generation);
}

std::string NewPartitionFileName(uint32_t partition, uint64_t generation) {
  std::random_device random;
  const uint64_t attempt = uint64_t{random()} << 32 | random();
  return absl::StrCat(PartitionFileName(partition, generation), "-",
                      absl::Hex(attempt, absl::kZeroPad16));
}

absl::Status WriteManifest(CheckpointStorage& storage, absl::string_view folder,
                           const v1::CheckpointManifest& manifest) {
  MUSTER_RETURN_IF_ERROR(CheckFiles(manifest));
  for (const v1::CheckpointFile& file : manifest.files()) {
    const std::string uri = JoinUri(folder, file.path());
    const absl::StatusOr<std::unique_ptr<StorageReader>> reader = storage.Open(uri);
    if (absl::IsNotFound(reader.status())) {
      return absl::FailedPreconditionError(
          absl::StrCat("the checkpoint ", folder, " cannot be completed: the file of partition ",
                       file.partition(), " is not visible from here (", reader.status().message(),
                       "); checkpoints need a folder that all daemons share"));
    }
    MUSTER_RETURN_IF_ERROR(reader.status());
    if ((*reader)->size() != file.bytes()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the checkpoint ", folder, " cannot be completed: ", uri, " has ",
                       (*reader)->size(), " bytes, partition ", file.partition(), " reported ",
                       file.bytes(), "; take the checkpoint again"));
    }
  }
  v1::CheckpointManifest stored = manifest;
  stored.set_format_version(manifest.program()          ? kProgramFormatVersion
                            : manifest.rank_files() > 0 ? kRankFilesFormatVersion
                                                        : kCheckpointFormatVersion);
  if (manifest.has_base_clock()) {
    uint64_t checksum = 0;
    const std::string base = CheckpointBeside(folder, manifest.base_clock());
    const absl::Status found = ReadManifest(storage, base, &checksum).status();
    if (absl::IsNotFound(found)) {
      return absl::FailedPreconditionError(
          absl::StrCat("the checkpoint ", folder, " cannot be completed: it goes on from ", base,
                       ", which is not complete; take it whole"));
    }
    MUSTER_RETURN_IF_ERROR(found);
    stored.set_base_checksum(checksum);
  }
  const std::string message = stored.SerializeAsString();
  if (message.size() > kMostCheckpointMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the manifest of the checkpoint ", folder, " would have ", message.size(),
                     " bytes, at most ", kMostCheckpointMessageBytes,
                     " can be read; name fewer tensors or take fewer partitions"));
  }
  std::string bytes;
  AppendU64(message.size(), bytes);
  bytes += message;
  AppendU64(Fingerprint(message), bytes);
  // What writers did is durable; what one that crashed had made of the folder may not be.
  MUSTER_RETURN_IF_ERROR(storage.SyncFolder(folder));
  return WriteFile(storage, JoinUri(folder, kManifestName), bytes);
}

absl::StatusOr<v1::CheckpointManifest> ReadManifest(const CheckpointStorage& storage,
                                                    absl::string_view folder, uint64_t* checksum) {
  const std::string uri = JoinUri(folder, kManifestName);
  absl::StatusOr<std::string> bytes = ReadManifestFile(storage, uri);
  if (absl::IsNotFound(bytes.status())) {
    return absl::NotFoundError(absl::StrCat("there is no complete checkpoint in ", folder, ": ",
                                            bytes.status().message()));
  }
  MUSTER_RETURN_IF_ERROR(bytes.status());
  const uint64_t length = bytes->size() >= kManifestFrame ? ReadU64(*bytes) : 0;
  if (bytes->size() < kManifestFrame || length != bytes->size() - kManifestFrame) {
    return absl::DataLossError(absl::StrCat("the manifest ", uri, " has ", bytes->size(),
                                            " bytes, expected ", length, " + ", kManifestFrame,
                                            kOfNoUse));
  }
  const absl::string_view message = absl::string_view(*bytes).substr(8, length);
  const uint64_t expected = ReadU64(absl::string_view(*bytes).substr(8 + length));
  if (const uint64_t actual = Fingerprint(message); actual != expected) {
    return absl::DataLossError(absl::StrCat("the manifest ", uri, " has checksum ",
                                            absl::Hex(actual), ", stored is ", absl::Hex(expected),
                                            kOfNoUse));
  }
  v1::CheckpointManifest manifest;
  if (!manifest.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return absl::DataLossError(
        absl::StrCat("the manifest ", uri, " is no CheckpointManifest message", kOfNoUse));
  }
  if (manifest.format_version() > kProgramFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the manifest ", uri, " has format version ", manifest.format_version(),
                     ", written by a later release of Muster; this one reads formats up to ",
                     kProgramFormatVersion));
  }
  if (absl::Status status = CheckFiles(manifest); !status.ok()) {
    return absl::DataLossError(
        absl::StrCat("the manifest ", uri, " is damaged: ", status.message(), kOfNoUse));
  }
  if (checksum != nullptr) *checksum = expected;
  return manifest;
}

absl::StatusOr<v1::CheckpointManifest> ReadBaseManifest(const CheckpointStorage& storage,
                                                        absl::string_view folder,
                                                        const v1::CheckpointManifest& manifest) {
  uint64_t checksum = 0;
  const std::string base = CheckpointBeside(folder, manifest.base_clock());
  absl::StatusOr<v1::CheckpointManifest> read = ReadManifest(storage, base, &checksum);
  if (absl::IsNotFound(read.status())) {
    return absl::DataLossError(absl::StrCat("the checkpoint ", folder, " goes on from ", base,
                                            ", which is gone (", read.status().message(), ")",
                                            kOfNoUse));
  }
  MUSTER_RETURN_IF_ERROR(read.status());
  if (checksum != manifest.base_checksum()) {
    return absl::DataLossError(
        absl::StrCat("the checkpoint ", folder, " goes on from ", JoinUri(base, kManifestName),
                     " with checksum ", absl::Hex(manifest.base_checksum()), ", the one there has ",
                     absl::Hex(checksum), ": it was taken anew", kOfNoUse));
  }
  if (read->files_size() != manifest.files_size()) {
    return absl::DataLossError(
        absl::StrCat("the checkpoint ", folder, " has ", manifest.files_size(), " files, ", base,
                     ", which it goes on from, has ", read->files_size(), kOfNoUse));
  }
  return read;
}

absl::Status VerifyCheckpointFile(const CheckpointStorage& storage, absl::string_view folder,
                                  const v1::CheckpointFile& file) {
  const std::string uri = JoinUri(folder, file.path());
  const absl::StatusOr<std::unique_ptr<StorageReader>> reader = storage.Open(uri);
  if (absl::IsNotFound(reader.status())) {
    return absl::DataLossError(absl::StrCat("the checkpoint file ", uri, " is missing", kOfNoUse));
  }
  MUSTER_RETURN_IF_ERROR(reader.status());
  if ((*reader)->size() != file.bytes()) {
    return absl::DataLossError(absl::StrCat("the checkpoint file ", uri, " has ", (*reader)->size(),
                                            " bytes, the manifest says ", file.bytes(), kOfNoUse));
  }
  FingerprintStream checksum;
  std::vector<std::byte> buffer(std::min<uint64_t>(kReadBytes, file.bytes()));
  for (uint64_t at = 0; at < file.bytes(); at += buffer.size()) {
    const absl::Span<std::byte> part =
        absl::MakeSpan(buffer).first(std::min<uint64_t>(buffer.size(), file.bytes() - at));
    MUSTER_RETURN_IF_ERROR((*reader)->Read(at, part));
    checksum.Add(part.data(), part.size());
  }
  if (checksum.Finish() != file.checksum()) {
    return absl::DataLossError(absl::StrCat("the checkpoint file ", uri, " has checksum ",
                                            absl::Hex(checksum.Finish()), ", the manifest says ",
                                            absl::Hex(file.checksum()), kOfNoUse));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointAudit> AuditCheckpoint(const CheckpointStorage& storage,
                                                absl::string_view folder) {
  CheckpointAudit audit;
  std::string at(folder);
  absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(storage, folder);
  for (;;) {
    ++audit.files;
    if (absl::IsDataLoss(manifest.status())) {
      audit.damage.push_back(manifest.status());
      return audit;
    }
    MUSTER_RETURN_IF_ERROR(manifest.status());
    if (audit.files == 1) audit.clock = manifest->clock();
    for (const v1::CheckpointFile& file : manifest->files()) {
      const absl::Status status = VerifyCheckpointFile(storage, at, file);
      if (!status.ok() && !absl::IsDataLoss(status)) return status;
      if (!status.ok()) audit.damage.push_back(status);
      ++audit.files;
      audit.bytes += file.bytes();
    }
    if (!manifest->has_base_clock()) return audit;
    // `manifest` is still needed while its base's is read.
    const uint64_t base_clock = manifest->base_clock();
    manifest = ReadBaseManifest(storage, at, v1::CheckpointManifest(*manifest));
    at = CheckpointBeside(at, base_clock);
  }
}

absl::Status VerifyCheckpoint(const CheckpointStorage& storage, absl::string_view folder) {
  MUSTER_ASSIGN_OR_RETURN(const CheckpointAudit audit, AuditCheckpoint(storage, folder));
  return audit.damage.empty() ? absl::OkStatus() : audit.damage.front();
}

absl::Status DeleteLeftovers(CheckpointStorage& storage, absl::string_view job_folder,
                             const LeftoverLimits& limits) {
  using Folders = std::map<uint64_t, std::string>;
  MUSTER_ASSIGN_OR_RETURN(const Folders folders, ListFolders(storage, job_folder));
  const std::string* newest = nullptr;
  for (const auto& [clock, folder] : folders) {
    if (clock > limits.reached) break;
    if (limits.kept.contains(clock)) {
      newest = &folder;
    } else {
      MUSTER_RETURN_IF_ERROR(DeleteFolder(storage, folder, limits.generation));
    }
  }
  if (newest == nullptr) return absl::OkStatus();
  return DeleteUnnamed(storage, *newest, limits.generation);
}

absl::Status DeleteManifest(CheckpointStorage& storage, absl::string_view folder) {
  return storage.DeleteRecursively(JoinUri(folder, kManifestName));
}

absl::Status DeleteCheckpoint(CheckpointStorage& storage, absl::string_view folder) {
  MUSTER_RETURN_IF_ERROR(DeleteManifest(storage, folder));
  return storage.DeleteRecursively(folder);
}

}  // namespace muster
