#include "common/files/text_files.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/files/file_roots.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Paths of the folder's regular files, and of links whose end is missing, in name order.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unreadable;
    const fs::file_type type = entry->status(unreadable).type();
    // A link to nowhere is kept, for opening it to fail by name: leaving it out would train on
    // other data than the folder seems to hold.
    if (type == fs::file_type::regular || type == fs::file_type::not_found) {
      paths.push_back(entry->path().string());
    }
  }
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("Listing data folder '", folder, "'"));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Whether one of these files has the content, too.
absl::StatusOr<bool> IsContentOf(const std::vector<std::string>& paths, absl::string_view content) {
  for (const std::string& path : paths) {
    MUSTER_ASSIGN_OR_RETURN(const FileContent file, FileContent::Open(path));
    if (file.bytes() == content) return true;
  }
  return false;
}

}  // namespace

absl::Status ForEachTextFile(
    const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& file_path, FileContent file)> take) {
  MUSTER_RETURN_IF_ERROR(CheckWithinDataRoots(path));
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    MUSTER_ASSIGN_OR_RETURN(FileContent file, OpenNonEmpty(path));
    return take(path, std::move(file));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FilesOf(path));
  absl::flat_hash_map<uint64_t, std::vector<std::string>> taken;
  for (const std::string& file_path : paths) {
    MUSTER_ASSIGN_OR_RETURN(FileContent file, FileContent::Open(file_path));
    if (file.bytes().empty()) continue;
    std::vector<std::string>& alike = taken[Fingerprint(file.bytes())];
    MUSTER_ASSIGN_OR_RETURN(const bool repeated, IsContentOf(alike, file.bytes()));
    if (repeated) continue;
    alike.push_back(file_path);
    MUSTER_RETURN_IF_ERROR(take(file_path, std::move(file)));
  }
  if (taken.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Data folder '", path, "' has no regular file with content right inside it ",
                     "(subfolders are not searched); name the folder that holds the text files"));
  }
  return absl::OkStatus();
}

}  // namespace muster
