#include "common/files/fake_folder_entries.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/base/status_macros.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

std::string FolderOf(const std::string& path) { return fs::path(path).parent_path().string(); }

}  // namespace

absl::Status FakeFolderEntries::Count() {
  if (operations_left_ == 0) return absl::UnavailableError("the process has ended");
  if (operations_left_ > 0) --operations_left_;
  return absl::OkStatus();
}

absl::Status FakeFolderEntries::Make(const std::string& path) {
  MUSTER_RETURN_IF_ERROR(Count());
  // An existing folder that was not synced stays unsynced.
  if (fs::exists(path)) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(Posix().Make(path));
  unsynced_[FolderOf(path)].push_back({.path = path});
  return absl::OkStatus();
}

absl::Status FakeFolderEntries::Publish(const std::string& from, const std::string& to) {
  MUSTER_RETURN_IF_ERROR(Count());
  MUSTER_RETURN_IF_ERROR(Posix().Publish(from, to));
  unsynced_[FolderOf(to)].push_back({.path = to, .from = from});
  return absl::OkStatus();
}

absl::Status FakeFolderEntries::Remove(const std::string& path) {
  MUSTER_RETURN_IF_ERROR(Count());
  return Posix().Remove(path);
}

absl::Status FakeFolderEntries::Sync(const std::string& folder) {
  MUSTER_RETURN_IF_ERROR(Count());
  if (!fs::is_directory(folder)) return absl::NotFoundError(folder + " is no folder");
  unsynced_.erase(folder);
  return absl::OkStatus();
}

bool FakeFolderEntries::StartProcess() {
  const bool ended = operations_left_ == 0;
  operations_left_ = -1;
  return ended;
}

void FakeFolderEntries::LosePower() {
  for (auto& [folder, entries] : unsynced_) {
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      std::error_code error;
      // The folder may be gone already.
      if (!fs::exists(entry->path)) continue;
      if (entry->from.empty()) {
        fs::remove_all(entry->path, error);
      } else {
        fs::rename(entry->path, entry->from, error);
      }
      if (error) std::abort();
    }
  }
  unsynced_.clear();
}

}  // namespace muster
