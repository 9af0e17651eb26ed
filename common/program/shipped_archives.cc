#include "common/program/shipped_archives.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

constexpr absl::string_view kFolder = "shipped";
constexpr absl::string_view kArchive = "archive";
constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kMostNameShown = 100;

absl::StatusOr<std::string> FolderOf(absl::string_view root, absl::string_view name) {
  if (IsContentName(name)) return JoinUri(JoinUri(root, kFolder), name);
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", PrintableLine(CutUtf8(name, kMostNameShown)),
      "\" is no name of a shipped folder, which is sha256- and 64 hexadecimal digits"));
}

absl::StatusOr<std::string> NameOfContent(const StorageReader& reader) {
  ContentHash hash;
  std::string buffer;
  for (uint64_t at = 0; at < reader.size(); at += buffer.size()) {
    buffer.resize(std::min<uint64_t>(kReadBytes, reader.size() - at));
    MUSTER_RETURN_IF_ERROR(
        reader.Read(at, {reinterpret_cast<std::byte*>(buffer.data()), buffer.size()}));
    hash.Add(buffer);
  }
  return hash.Name();
}

}  // namespace

absl::StatusOr<std::string> ShippedArchiveUri(absl::string_view checkpoint_root,
                                              absl::string_view name) {
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, FolderOf(checkpoint_root, name));
  return JoinUri(folder, kArchive);
}

ShippedArchiveWriter::ShippedArchiveWriter(std::unique_ptr<StorageWriter> file, std::string name,
                                           uint64_t bytes)
    : file_(std::move(file)), name_(std::move(name)), left_(bytes) {}

absl::Status ShippedArchiveWriter::Append(absl::string_view bytes) {
  if (bytes.size() > left_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shipped folder ", name_, " has more bytes than were announced"));
  }
  left_ -= bytes.size();
  hash_.Add(bytes);
  return file_->Append({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

absl::Status ShippedArchiveWriter::Commit() {
  if (left_ > 0) {
    return absl::InvalidArgumentError(absl::StrCat("the shipped folder ", name_, " lacks ", left_,
                                                   " of the bytes that were announced"));
  }
  if (const std::string content = hash_.Name(); content != name_) {
    return absl::InvalidArgumentError(absl::StrCat("the shipped folder ", name_,
                                                   " has the content of ", content,
                                                   "; send it under that name"));
  }
  const absl::Status committed = file_->Commit();
  return absl::IsAlreadyExists(committed) ? absl::OkStatus() : committed;
}

ShippedArchives::ShippedArchives(CheckpointStorage& storage, std::string root)
    : storage_(storage), root_(std::move(root)) {}

absl::StatusOr<bool> ShippedArchives::Has(absl::string_view name) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string uri, ShippedArchiveUri(root_, name));
  return storage_.Exists(uri);
}

absl::StatusOr<bool> ShippedArchives::HasSound(absl::string_view name, uint64_t bytes) {
  MUSTER_ASSIGN_OR_RETURN(const std::string uri, ShippedArchiveUri(root_, name));
  const auto reader = storage_.Open(uri);
  if (absl::IsNotFound(reader.status())) return false;
  bool sound = false;
  if (reader.ok()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string content, NameOfContent(**reader));
    sound = content == name;
    // Whoever announces another size has other bytes, or counts wrongly.
    if (sound && (*reader)->size() != bytes) {
      return absl::InvalidArgumentError(absl::StrCat("the shipped folder ", name, " has ",
                                                     (*reader)->size(), " bytes, not ", bytes));
    }
  } else if (!absl::IsDataLoss(reader.status())) {
    return reader.status();
  }
  if (!sound) MUSTER_RETURN_IF_ERROR(Remove(name));
  return sound;
}

absl::StatusOr<std::unique_ptr<ShippedArchiveWriter>> ShippedArchives::Create(
    const std::string& name, uint64_t bytes) {
  MUSTER_ASSIGN_OR_RETURN(const std::string uri, ShippedArchiveUri(root_, name));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StorageWriter> file, storage_.Create(uri));
  return std::make_unique<ShippedArchiveWriter>(std::move(file), name, bytes);
}

absl::StatusOr<std::vector<std::string>> ShippedArchives::List() const {
  absl::StatusOr<std::vector<std::string>> names = storage_.List(JoinUri(root_, kFolder));
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  MUSTER_RETURN_IF_ERROR(names.status());
  // Others may have put something there.
  std::erase_if(*names, [](const std::string& name) { return !IsContentName(name); });
  return names;
}

absl::Status ShippedArchives::Remove(absl::string_view name) {
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, FolderOf(root_, name));
  return storage_.DeleteRecursively(folder);
}

}  // namespace muster
