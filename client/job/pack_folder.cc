#include "client/job/pack_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/job/ignore_rules.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/file_error.h"
#include "common/program/content_hash.h"
#include "common/program/folder_archive.h"
#include "common/text/format_bytes.h"
#include "common/text/printable.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// Files and folders after which the walk ends: far more than may be sent, so that the error can
// still name the largest.
constexpr size_t kMostSeen = 10 * kMostArchiveEntries;
constexpr size_t kLargestShown = 5;
// Bytes of an entry beside its path and content.
constexpr uint64_t kEntryBytes = 16;

bool IsNeverSent(absl::string_view name) { return name == ".git" || name == "__pycache__"; }

// Returns whether a folder is made by a tool that makes it anew on every machine, or holds secrets.
bool IsNeverSentFolder(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "pyvenv.cfg", ignored) || fs::exists(folder / "cluster.json", ignored);
}

// This is what a folder has.
class FolderWalk {
 public:
  FolderWalk(const fs::path& folder, const IgnoreRules& rules) : folder_(folder), rules_(rules) {}

  // Lists a folder and those in it; `prefix` is its path with a slash, or empty. Call once.
  absl::Status List(const std::string& prefix) {
    std::error_code error;
    const fs::path listed = folder_ / prefix;
    fs::directory_iterator each(listed, error);
    for (; !error && each != fs::directory_iterator(); each.increment(error)) {
      if (entries_.size() >= kMostSeen) return absl::OkStatus();
      MUSTER_RETURN_IF_ERROR(Add(absl::StrCat(prefix, each->path().filename().string())));
    }
    if (error) return FileError("list", listed.string(), error.value());
    return absl::OkStatus();
  }

  // Returns the entries in the archive's order. InvalidArgument: they are too many or too large.
  absl::StatusOr<std::vector<ArchiveEntry>> Take() {
    uint64_t bytes = 0;
    for (const ArchiveEntry& entry : entries_) {
      bytes += kEntryBytes + entry.path.size() + entry.bytes;
    }
    if (entries_.size() > kMostArchiveEntries || bytes > kMostArchiveBytes) return TooLarge(bytes);
    std::sort(entries_.begin(), entries_.end(),
              [](const ArchiveEntry& a, const ArchiveEntry& b) { return a.path < b.path; });
    return std::move(entries_);
  }

 private:
  absl::Status Add(std::string path) {
    const fs::path whole = folder_ / path;
    if (IsNeverSent(whole.filename().string())) return absl::OkStatus();
    struct stat status;
    if (lstat(whole.c_str(), &status) != 0) return FileError("inspect", whole.string(), errno);
    const bool is_folder = S_ISDIR(status.st_mode);
    if (rules_.Fits(path, is_folder ? IgnoreRules::Kind::kFolder : IgnoreRules::Kind::kFile)) {
      return absl::OkStatus();
    }
    if (is_folder) {
      if (IsNeverSentFolder(whole)) return absl::OkStatus();
      entries_.push_back({.kind = ArchiveEntry::Kind::kFolder, .path = path});
      return List(path + "/");
    }
    if (!S_ISREG(status.st_mode)) return Refused(whole, status.st_mode);
    entries_.push_back({.kind = (status.st_mode & S_IXUSR) != 0 ? ArchiveEntry::Kind::kExecutable
                                                                : ArchiveEntry::Kind::kFile,
                        .path = std::move(path),
                        .bytes = static_cast<uint64_t>(status.st_size)});
    return absl::OkStatus();
  }

  absl::Status Refused(const fs::path& path, mode_t mode) const {
    return absl::InvalidArgumentError(absl::StrCat(
        PrintableLine(path.string()),
        S_ISLNK(mode) ? " is a symbolic link, and what it leads to need not be on the workers; put "
                        "the file or folder itself there"
                      : " is no regular file, so it cannot be sent; remove it",
        ", or name it in ", PrintableLine((folder_ / kIgnoreFile).string())));
  }

  absl::Status TooLarge(uint64_t bytes) {
    const size_t shown = std::min(kLargestShown, entries_.size());
    std::partial_sort(
        entries_.begin(), entries_.begin() + shown, entries_.end(),
        [](const ArchiveEntry& a, const ArchiveEntry& b) { return a.bytes > b.bytes; });
    std::string largest;
    for (size_t i = 0; i < shown; ++i) {
      absl::StrAppend(&largest, i > 0 ? ", " : "", PrintableLine(entries_[i].path), " (",
                      FormatBytes(entries_[i].bytes), ")");
    }
    return absl::InvalidArgumentError(absl::StrCat(
        PrintableLine(folder_.string()), " has ", entries_.size() >= kMostSeen ? "at least " : "",
        entries_.size(), " files and folders with ", FormatBytes(bytes), "; at most ",
        kMostArchiveEntries, " with ", FormatBytes(kMostArchiveBytes),
        " are sent with a job. The largest: ", largest, ". Name what the program does not need in ",
        PrintableLine((folder_ / kIgnoreFile).string()),
        ", and leave data where the workers can read them"));
  }

  const fs::path folder_;
  const IgnoreRules& rules_;
  std::vector<ArchiveEntry> entries_;
};

absl::StatusOr<IgnoreRules> ReadIgnoreRules(const fs::path& folder) {
  const std::string path = (folder / kIgnoreFile).string();
  const absl::StatusOr<FileContent> content = FileContent::Open(path);
  if (absl::IsNotFound(content.status())) return IgnoreRules();
  MUSTER_RETURN_IF_ERROR(content.status());
  return IgnoreRules::Parse(content->bytes(), path);
}

}  // namespace

absl::StatusOr<PackedFolder> PackFolder(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (fs::exists(path, error)) {
      return absl::InvalidArgumentError(
          absl::StrCat(PrintableLine(path),
                       " is no folder; model.program.working_folder names the "
                       "folder that is sent with the job"));
    }
    return absl::NotFoundError(
        absl::StrCat("there is no folder ", PrintableLine(path),
                     " on this machine; model.program.working_folder names the folder that is sent "
                     "with the job"));
  }
  MUSTER_ASSIGN_OR_RETURN(const IgnoreRules rules, ReadIgnoreRules(path));
  FolderWalk walk(path, rules);
  MUSTER_RETURN_IF_ERROR(walk.List(""));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<ArchiveEntry> entries, walk.Take());
  PackedFolder packed;
  ArchiveWriter writer(packed.archive);
  for (const ArchiveEntry& entry : entries) {
    if (entry.kind == ArchiveEntry::Kind::kFolder) {
      writer.Add(entry, "");
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(const FileContent content,
                            FileContent::Open((fs::path(path) / entry.path).string()));
    writer.Add(entry, content.bytes());
    ++packed.files;
    if (packed.archive.size() > kMostArchiveBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          PrintableLine(path), " grew while it was read, beyond ", FormatBytes(kMostArchiveBytes),
          "; name what is being written in ", PrintableLine(absl::StrCat(path, "/", kIgnoreFile))));
    }
  }
  writer.End();
  ContentHash hash;
  hash.Add(packed.archive);
  packed.name = hash.Name();
  return packed;
}

}  // namespace muster
