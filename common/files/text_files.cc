#include "common/files/text_files.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/files/check_is_text.h"
#include "common/files/file_roots.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Most names of hidden files that are told.
constexpr size_t kNamesTold = 5;

bool IsHidden(absl::string_view name) {
  return absl::StartsWith(name, ".") || absl::EndsWith(name, "~") || absl::EndsWith(name, ".swp");
}

// Returns whether one of these files has the content, too.
absl::StatusOr<bool> IsContentOf(const std::vector<std::string>& paths, absl::string_view content) {
  for (const std::string& path : paths) {
    MUSTER_ASSIGN_OR_RETURN(const FileContent file, FileContent::Open(path));
    if (file.bytes() == content) return true;
  }
  return false;
}

// Returns the end of an error about a file in a folder.
absl::Status WithinFolder(const std::string& folder, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), " (every file right inside folder '", folder,
                                   "' is read as text)"));
}

}  // namespace

absl::StatusOr<TextFolder> ListTextFolder(const std::string& folder) {
  TextFolder listed;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unreadable;
    const fs::file_type type = entry->status(unreadable).type();
    if (type != fs::file_type::regular && type != fs::file_type::not_found) continue;
    const std::string name = entry->path().filename().string();
    if (IsHidden(name)) {
      listed.hidden.push_back(name);
    } else {
      listed.paths.push_back(entry->path().string());
    }
  }
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("Listing data folder '", folder, "'"));
  }
  std::sort(listed.paths.begin(), listed.paths.end());
  std::sort(listed.hidden.begin(), listed.hidden.end());
  return listed;
}

std::string TellHiddenFiles(const std::string& path) {
  const absl::StatusOr<TextFolder> listed = ListTextFolder(path);
  if (!listed.ok() || listed->hidden.empty()) return "";
  const size_t count = listed->hidden.size();
  const auto names = absl::MakeConstSpan(listed->hidden).subspan(0, kNamesTold);
  return absl::StrCat("folder '", path, "': left out ", count, " hidden ",
                      count == 1 ? "file" : "files", ": ", absl::StrJoin(names, ", "),
                      count > kNamesTold ? absl::StrCat(" and ", count - kNamesTold, " more") : "");
}

absl::Status ForEachTextFile(
    const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& file_path, FileContent file)> take) {
  MUSTER_RETURN_IF_ERROR(CheckWithinDataRoots(path));
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    MUSTER_ASSIGN_OR_RETURN(FileContent file, OpenNonEmpty(path));
    MUSTER_RETURN_IF_ERROR(CheckIsText(path, file.bytes()));
    return take(path, std::move(file));
  }
  MUSTER_ASSIGN_OR_RETURN(const TextFolder listed, ListTextFolder(path));
  absl::flat_hash_map<uint64_t, std::vector<std::string>> taken;
  for (const std::string& file_path : listed.paths) {
    MUSTER_ASSIGN_OR_RETURN(FileContent file, FileContent::Open(file_path));
    if (file.bytes().empty()) continue;
    const absl::Status is_text = CheckIsText(file_path, file.bytes());
    if (!is_text.ok()) return WithinFolder(path, is_text);
    std::vector<std::string>& alike = taken[Fingerprint(file.bytes())];
    MUSTER_ASSIGN_OR_RETURN(const bool repeated, IsContentOf(alike, file.bytes()));
    if (repeated) continue;
    alike.push_back(file_path);
    MUSTER_RETURN_IF_ERROR(take(file_path, std::move(file)));
  }
  if (taken.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Data folder '", path, "' has no regular file with content right inside it (hidden files ",
        "and subfolders are left out); name the folder that holds the text files"));
  }
  return absl::OkStatus();
}

}  // namespace muster
