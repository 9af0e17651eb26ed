#include "common/files/text_files.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"

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

// The contents of these files, without empty ones and repetitions.
absl::StatusOr<std::vector<FileContent>> DistinctContents(const std::vector<std::string>& paths) {
  std::vector<FileContent> files;
  absl::flat_hash_map<uint64_t, std::vector<size_t>> by_fingerprint;
  for (const std::string& path : paths) {
    MUSTER_ASSIGN_OR_RETURN(FileContent file, FileContent::Open(path));
    if (file.bytes().empty()) continue;
    std::vector<size_t>& alike = by_fingerprint[Fingerprint(file.bytes())];
    if (std::any_of(alike.begin(), alike.end(),
                    [&](size_t f) { return files[f].bytes() == file.bytes(); })) {
      continue;
    }
    alike.push_back(files.size());
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

absl::StatusOr<std::vector<FileContent>> OpenTextFiles(const std::string& path) {
  std::error_code error;
  std::vector<FileContent> files;
  if (!fs::is_directory(path, error)) {
    MUSTER_ASSIGN_OR_RETURN(FileContent file, OpenNonEmpty(path));
    files.push_back(std::move(file));
    return files;
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FilesOf(path));
  MUSTER_ASSIGN_OR_RETURN(files, DistinctContents(paths));
  if (files.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Data folder '", path, "' has no regular file with content right inside it ",
                     "(subfolders are not searched); name the folder that holds the text files"));
  }
  return files;
}

}  // namespace muster
