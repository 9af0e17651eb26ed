#include "common/checkpoint/memory_storage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

absl::Status Missing(absl::string_view path) {
  return absl::NotFoundError(absl::StrCat("there is no ", path));
}

absl::Status Taken(absl::string_view path) {
  return absl::AlreadyExistsError(absl::StrCat("cannot write ", path, ": there is such a file"));
}

// What all paths in a folder begin with.
std::string FolderPrefix(const std::string& path) { return path == "/" ? path : path + "/"; }

class MemoryReader final : public StorageReader {
 public:
  MemoryReader(std::shared_ptr<const std::string> bytes, std::string path)
      : bytes_(std::move(bytes)), path_(std::move(path)) {}

  uint64_t size() const override { return bytes_->size(); }

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const override {
    if (offset > bytes_->size() || out.size() > bytes_->size() - offset) {
      return absl::OutOfRangeError(absl::StrCat("cannot read bytes ", offset, " to ",
                                                offset + out.size(), " of ", path_,
                                                ", which ends at ", bytes_->size()));
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_->data() + offset, out.size());
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const std::string> bytes_;
  const std::string path_;
};

}  // namespace

class MemoryStorage::Writer final : public StorageWriter {
 public:
  Writer(std::shared_ptr<Files> files, std::string path)
      : files_(std::move(files)), path_(std::move(path)) {}

  absl::Status Append(absl::Span<const std::byte> bytes) override {
    if (bytes_ == nullptr) return Closed();
    bytes_->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    if (bytes_ == nullptr) return Closed();
    absl::MutexLock lock(&files_->mutex);
    const bool added = files_->by_path.emplace(path_, std::move(bytes_)).second;
    bytes_ = nullptr;
    return added ? absl::OkStatus() : Taken(path_);
  }

 private:
  absl::Status Closed() const {
    return absl::FailedPreconditionError(absl::StrCat("the file ", path_, " was completed before"));
  }

  const std::shared_ptr<Files> files_;
  const std::string path_;
  std::shared_ptr<std::string> bytes_ = std::make_shared<std::string>();
};

MemoryStorage::MemoryStorage() : files_(std::make_shared<Files>()) {}

absl::StatusOr<std::unique_ptr<StorageWriter>> MemoryStorage::Create(absl::string_view uri) {
  MUSTER_ASSIGN_OR_RETURN(std::string path, LocalPath(uri));
  const std::string prefix = FolderPrefix(path);
  absl::MutexLock lock(&files_->mutex);
  const auto inside = files_->by_path.lower_bound(prefix);
  if (path == "/" || (inside != files_->by_path.end() && absl::StartsWith(inside->first, prefix))) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": Is a directory"));
  }
  if (files_->by_path.count(path) > 0) return Taken(path);
  for (const auto& [file, bytes] : files_->by_path) {
    if (absl::StartsWith(path, FolderPrefix(file))) {
      return absl::NotFoundError(
          absl::StrCat("cannot create the folder ", file, ": Not a directory"));
    }
  }
  return std::make_unique<Writer>(files_, std::move(path));
}

absl::StatusOr<std::unique_ptr<StorageReader>> MemoryStorage::Open(absl::string_view uri) const {
  MUSTER_ASSIGN_OR_RETURN(std::string path, LocalPath(uri));
  absl::MutexLock lock(&files_->mutex);
  const auto at = files_->by_path.find(path);
  if (at == files_->by_path.end()) return Missing(path);
  return std::make_unique<MemoryReader>(at->second, std::move(path));
}

absl::StatusOr<std::vector<std::string>> MemoryStorage::List(absl::string_view uri) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, LocalPath(uri));
  const std::string prefix = FolderPrefix(path);
  std::vector<std::string> names;
  absl::MutexLock lock(&files_->mutex);
  for (auto at = files_->by_path.lower_bound(prefix);
       at != files_->by_path.end() && absl::StartsWith(at->first, prefix); ++at) {
    const std::string rest = at->first.substr(prefix.size());
    std::string name = rest.substr(0, rest.find('/'));
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  if (names.empty()) return Missing(path);
  // The order of paths is not quite that of names: '/' comes behind '-'.
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

absl::StatusOr<bool> MemoryStorage::Exists(absl::string_view uri) const {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, LocalPath(uri));
  const std::string prefix = FolderPrefix(path);
  absl::MutexLock lock(&files_->mutex);
  if (path == "/" || files_->by_path.count(path) > 0) return true;
  const auto inside = files_->by_path.lower_bound(prefix);
  return inside != files_->by_path.end() && absl::StartsWith(inside->first, prefix);
}

absl::Status MemoryStorage::DeleteRecursively(absl::string_view uri) {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, LocalPath(uri));
  if (path == "/") return absl::InvalidArgumentError("the root of the storage is not deleted");
  const std::string prefix = FolderPrefix(path);
  absl::MutexLock lock(&files_->mutex);
  files_->by_path.erase(path);
  auto at = files_->by_path.lower_bound(prefix);
  while (at != files_->by_path.end() && absl::StartsWith(at->first, prefix)) {
    at = files_->by_path.erase(at);
  }
  return absl::OkStatus();
}

absl::Status MemoryStorage::SyncFolder(absl::string_view uri) { return List(uri).status(); }

absl::Status ReplaceFile(CheckpointStorage& storage, absl::string_view uri,
                         absl::string_view bytes) {
  MUSTER_RETURN_IF_ERROR(storage.DeleteRecursively(uri));
  return WriteFile(storage, uri, bytes);
}

}  // namespace muster
